// The delta rule on one head's state, and what goes with it, for the CUDA kernels of the KDA family. A half-warp of 16
// lanes owns a state row. The map of columns to lanes and every tree of additions depend on the state type alone, so
// all kernels that are made of this give the same bits.
#pragma once

#include "gpu/access.hpp"
#include "gpu/bf16.hpp"
#include "gpu/fast_math.hpp"
#include "gpu/halving.hpp"
#include "gpu/warp.hpp"

namespace silt::kda_cuda {

constexpr int kHeadDim = 128;
constexpr int kStateElements = kHeadDim * kHeadDim;
constexpr int kLanesPerRow = 16;  // 8 and 32 lanes a row were within 3 % in the prototype; they give other bits
constexpr int kColumnsPerLane = kHeadDim / kLanesPerRow;
constexpr float kInverseRootDim = 0.08838834764831845F;  // 128^-0.5
constexpr float kNormEps = 1e-6F;

SILT_DEVICE float4 widen(uint2 v) {
  return make_float4(gpu::low_bf16(v.x), gpu::high_bf16(v.x), gpu::low_bf16(v.y), gpu::high_bf16(v.y));
}

/// Four neighbouring values of a bf16 or fp32 tensor, and back with one rounding.
template <bool kAligned>
SILT_DEVICE float4 load_columns(const uint16_t* at) {
  return widen(gpu::load_4<kAligned>(at));
}
template <bool kAligned>
SILT_DEVICE float4 load_columns(const float* at) {
  return gpu::load_4<kAligned>(at);
}
template <bool kAligned>
SILT_DEVICE void store_columns(uint16_t* at, float4 v) {
  gpu::store_4<kAligned>(at, make_uint2(gpu::pack_bf16(v.x, v.y), gpu::pack_bf16(v.z, v.w)));
}
template <bool kAligned>
SILT_DEVICE void store_columns(float* at, float4 v) {
  gpu::store_4<kAligned>(at, v);
}

SILT_DEVICE float4 multiply_add(float4 a, float4 b, float4 c) {
  return make_float4(fmaf(a.x, b.x, c.x), fmaf(a.y, b.y, c.y), fmaf(a.z, b.z, c.z), fmaf(a.w, b.w, c.w));
}

/// Of q and k: a reciprocal root of 0 then means that finite squares overflowed, nothing else.
SILT_DEVICE float4 infinite_to_nan(float4 z) { return multiply_add(z, make_float4(0, 0, 0, 0), z); }

/// log1p of the full library: far below zero softplus is tiny, and a = exp(A_log) of several hundred multiplies its
/// error.
SILT_DEVICE float softplus(float x) { return x > 20.0F ? x : log1pf(expf(x)); }

/// exp(log decay) of four channels.
SILT_DEVICE float4 decay_of(bool safe_gate, float bound, float a_log, float4 raw, float4 dt_bias) {
  const float a = gpu::fast_exp(a_log);
  const float4 g = make_float4(raw.x + dt_bias.x, raw.y + dt_bias.y, raw.z + dt_bias.z, raw.w + dt_bias.w);
  if (safe_gate) {
    return make_float4(
        gpu::fast_exp(bound * gpu::fast_sigmoid(a * g.x)), gpu::fast_exp(bound * gpu::fast_sigmoid(a * g.y)),
        gpu::fast_exp(bound * gpu::fast_sigmoid(a * g.z)), gpu::fast_exp(bound * gpu::fast_sigmoid(a * g.w)));
  }
  return make_float4(gpu::fast_exp(-a * softplus(g.x)), gpu::fast_exp(-a * softplus(g.y)),
                     gpu::fast_exp(-a * softplus(g.z)), gpu::fast_exp(-a * softplus(g.w)));
}

/// Columns of a lane in units of four: fp32 interleaves the lanes per 16 bytes, bf16 has eight columns in 16 bytes.
template <class State>
SILT_DEVICE int column4(int chunk, int lane) {
  return sizeof(State) == 2 ? lane * 2 + chunk : chunk * kLanesPerRow + lane;
}
constexpr int kChunks = kColumnsPerLane / 4;

/// Norms are applied to the scalars of a row, never to the vectors: u = rk * sum(S k), o = rq * sum(S q) + e * kq. So
/// no thread rewrites q or k, and the sums of the head are reduced while the state is still on its way.
struct HeadSums {
  float rk;  // 1 / |k|
  float rq;  // 128^-0.5 / |q|
  float kq;  // k.q of the normalised vectors
};

SILT_DEVICE float dot_add(float4 a, float4 b, float sum) {
  sum = fmaf(a.x, b.x, sum);
  sum = fmaf(a.y, b.y, sum);
  sum = fmaf(a.z, b.z, sum);
  return fmaf(a.w, b.w, sum);
}

/// sum * r, and 0 where r says that the vector's squares have left the fp32 range (contract.md, overflow): the sum may
/// have left it too.
SILT_DEVICE float normalised(float sum, float r) { return r == 0 ? 0.0F : sum * r; }

/// Every half-warp makes them from the columns its lanes need anyway.
template <class State>
SILT_DEVICE HeadSums head_sums(const float4* q, const float4* k, int lane) {
  float qq = 0;
  float kk = 0;
  float kq = 0;
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    const float4 qc = q[column4<State>(chunk, lane)];
    const float4 kc = k[column4<State>(chunk, lane)];
    qq = dot_add(qc, qc, qq);
    kk = dot_add(kc, kc, kk);
    kq = dot_add(kc, qc, kq);
  }
  HeadSums sums;
  sums.rk = gpu::fast_rsqrt(gpu::lane_sum<kLanesPerRow>(kk) + kNormEps);
  sums.rq = gpu::fast_rsqrt(gpu::lane_sum<kLanesPerRow>(qq) + kNormEps) * kInverseRootDim;
  sums.kq = normalised(normalised(gpu::lane_sum<kLanesPerRow>(kq), sums.rk), sums.rq);
  return sums;
}

/// A lane's share of a state row, as fp32 and as stored.
struct RowShare {
  float4 chunk[kChunks];
};
template <class State>
constexpr int kVectorElements = 16 / static_cast<int>(sizeof(State));
template <class State>
struct StoredShare {
  static constexpr int kVectors = kColumnsPerLane / kVectorElements<State>;
  uint4 vector[kVectors];
};

/// From and to `at`, the lane's first column of the row.
template <bool kAligned, gpu::Hint kHint, class State>
SILT_DEVICE StoredShare<State> load_share(const State* at) {
  StoredShare<State> share;
#pragma unroll
  for (int i = 0; i < StoredShare<State>::kVectors; ++i) {
    share.vector[i] = gpu::load_vector<kAligned, kHint>(at + i * kLanesPerRow * kVectorElements<State>);
  }
  return share;
}
template <bool kAligned, gpu::Hint kHint, class State>
SILT_DEVICE void store_share(State* at, const StoredShare<State>& share) {
#pragma unroll
  for (int i = 0; i < StoredShare<State>::kVectors; ++i) {
    gpu::store_vector<kAligned, kHint>(at + i * kLanesPerRow * kVectorElements<State>, share.vector[i]);
  }
}
SILT_DEVICE RowShare widen(const StoredShare<float>& stored) {
  RowShare share;
#pragma unroll
  for (int i = 0; i < kChunks; ++i) {
    const uint4 u = stored.vector[i];
    share.chunk[i] =
        make_float4(__uint_as_float(u.x), __uint_as_float(u.y), __uint_as_float(u.z), __uint_as_float(u.w));
  }
  return share;
}
SILT_DEVICE RowShare widen(const StoredShare<uint16_t>& stored) {
  const uint4 u = stored.vector[0];
  RowShare share;
  share.chunk[0] = widen(make_uint2(u.x, u.y));
  share.chunk[1] = widen(make_uint2(u.z, u.w));
  return share;
}
template <class State>
SILT_DEVICE StoredShare<State> narrow(const RowShare& share) {
  StoredShare<State> stored;
  if constexpr (sizeof(State) == 2) {
    const float4 a = share.chunk[0];
    const float4 b = share.chunk[1];
    stored.vector[0] = make_uint4(gpu::pack_bf16(a.x, a.y), gpu::pack_bf16(a.z, a.w), gpu::pack_bf16(b.x, b.y),
                                  gpu::pack_bf16(b.z, b.w));
  } else {
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const float4 f = share.chunk[i];
      stored.vector[i] =
          make_uint4(__float_as_uint(f.x), __float_as_uint(f.y), __float_as_uint(f.z), __float_as_uint(f.w));
    }
  }
  return stored;
}

/// q, k and the decay of the head in shared memory, in units of four columns.
struct HeadVectors {
  const float4* q;
  const float4* k;
  const float4* decay;
};

/// What update_rows hands back to a lane: the output of row `index` of the pass. The upper eight lanes of the half-warp
/// hold them, kCopies lanes each (`copy` tells them apart); elsewhere `valid` is false.
struct RowOutput {
  bool valid;
  int index;
  int copy;
  float value;
};
template <int kRows>
constexpr int kCopiesOfOutput = kLanesPerRow / (2 * kRows);

/// One pass over kRows rows of a half-warp: decay, both dots, correction, rank-1 update. `value(i)` is v of row i. The
/// 2 * kRows dots are reduced by recursive halving: a lane ends with one sum, u in the lower eight lanes and the
/// matching S.q in the upper eight.
template <class State, int kRows, class Value>
SILT_DEVICE RowOutput update_rows(RowShare (&rows)[kRows], const HeadVectors& head, const HeadSums& sums, float beta,
                                  int lane, const Value& value) {
  constexpr int kHalf = kLanesPerRow / 2;
  constexpr int kCopies = kCopiesOfOutput<kRows>;
  float dots[2 * kRows];
#pragma unroll
  for (int i = 0; i < 2 * kRows; ++i) dots[i] = 0;
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    const int column = column4<State>(chunk, lane);
    const float4 d = head.decay[column];
    const float4 k = head.k[column];
    const float4 q = head.q[column];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float4& s = rows[r].chunk[chunk];
      s = make_float4(s.x * d.x, s.y * d.y, s.z * d.z, s.w * d.w);
      dots[r] = dot_add(s, k, dots[r]);
      dots[kRows + r] = dot_add(s, q, dots[kRows + r]);
    }
  }
  gpu::halve_sums<2 * kRows, kHalf>(dots, lane);
  RowOutput output;
  output.valid = (lane & kHalf) != 0;
  output.index = (lane & (kHalf - 1)) / kCopies;
  output.copy = lane % kCopies;
  const float error = (value(output.index) - normalised(dots[0], sums.rk)) * beta;  // e; right in the lower eight lanes
  const float error_here = __shfl_xor_sync(gpu::kAllLanes, error, kHalf);
  output.value = fmaf(error_here, sums.kq, normalised(dots[0], sums.rq));
  const float step = error * sums.rk;
  float steps[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) steps[r] = __shfl_sync(gpu::kAllLanes, step, r * kCopies, kLanesPerRow);
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    const float4 k = head.k[column4<State>(chunk, lane)];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float4& s = rows[r].chunk[chunk];
      s = make_float4(fmaf(steps[r], k.x, s.x), fmaf(steps[r], k.y, s.y), fmaf(steps[r], k.z, s.z),
                      fmaf(steps[r], k.w, s.w));
    }
  }
  return output;
}

/// 1 / rms of the head's 128 outputs: the same tree in every warp and schedule.
SILT_DEVICE float inverse_rms(const float4* outputs, int warp_lane, float eps) {
  const float4 o = outputs[warp_lane];
  return gpu::fast_rsqrt(gpu::lane_sum<32>(dot_add(o, o, 0)) * (1.0F / kHeadDim) + eps);
}

}  // namespace silt::kda_cuda
