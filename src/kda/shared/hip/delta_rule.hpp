// The delta rule on one head's state, and what goes with it, for the AMD kernels of the KDA family: a workgroup of four
// waves per head, wave w owns rows 32w..32w+31, a group of 16 lanes a row at a time, a lane 8 columns. The map of
// columns to lanes and every tree of additions depend on the state type alone.
#pragma once

#include "gpu/hip/device.hpp"

namespace silt::kda_hip {

using namespace hip;

constexpr uint32_t kDim = 128;
constexpr uint32_t kWaves = 4;
constexpr uint32_t kRowsPerWave = kDim / kWaves;
constexpr uint32_t kLanesPerRow = 16;
constexpr uint32_t kRowsPerPass = kWaveLanes / kLanesPerRow;  // of a wave
constexpr uint32_t kPasses = kRowsPerWave / kRowsPerPass;
/// What a wave brings to local memory: two channels a lane of q, k or v (waves 0..2), or of the gate.
constexpr uint32_t kValueWave = 2;
constexpr uint32_t kGateWave = 3;
constexpr float kInverseRootDim = 0.08838834764831845F;  // 128^-0.5
constexpr float kNormEps = 1e-6F;

struct RowAndHead {
  uint32_t row, head;
};
/// item / heads and the rest; `reciprocal`: floor((2^32 - 1) / heads), by which the quotient is right or one short.
SILT_DEVICE RowAndHead divide(uint32_t item, uint32_t heads, uint32_t reciprocal) {
  uint32_t row = multiply_high(item, reciprocal);
  uint32_t head = item - row * heads;
  if (head >= heads) {
    ++row;
    head -= heads;
  }
  return {row, head};
}

/// A lane's eight columns of a row, as stored. fp32: 4c..4c+3 and 64+4c..64+4c+3, two loads of 256 bytes a row; bf16:
/// 8c..8c+7.
template <bool kAligned>
struct Fp32State {
  using Element = float;
  static constexpr uint32_t kSecond = 64;
  static constexpr uint32_t kFirstColumn = 4;  // times the lane's number in the row
  struct Packed {
    f32x4 a, b;
  };
  static SILT_DEVICE f32x4 load_half(Global<const float> p) {
    if constexpr (kAligned) {
      return load_stream<f32x4>(p);
    } else {
      return f32x4{load<float>(p), load<float>(p + 1), load<float>(p + 2), load<float>(p + 3)};
    }
  }
  static SILT_DEVICE void store_half(Global<float> p, f32x4 v) {
    if constexpr (kAligned) {
      store_stream(p, v);
    } else {
      for (uint32_t i = 0; i < 4; ++i) store<float>(p + i, v[i]);
    }
  }
  static SILT_DEVICE Packed load_row(Global<const float> p) { return {load_half(p), load_half(p + kSecond)}; }
  static SILT_DEVICE void store_row(Global<float> p, f32x4 a, f32x4 b) {
    store_half(p, a);
    store_half(p + kSecond, b);
  }
  static SILT_DEVICE void unpack(const Packed& s, f32x4& a, f32x4& b) {
    a = s.a;
    b = s.b;
  }
  static SILT_DEVICE void unpack_late(const Packed& s, f32x4& a, f32x4& b) { unpack(s, a, b); }
};

template <bool kAligned>
struct Bf16State {
  using Element = uint16_t;
  static constexpr uint32_t kSecond = 4;
  static constexpr uint32_t kFirstColumn = 8;
  using Packed = u32x4;
  static SILT_DEVICE Packed load_row(Global<const uint16_t> p) {
    if constexpr (kAligned) {
      return load_stream<u32x4>(p);
    } else {
      return u32x4{load_pair<false>(p), load_pair<false>(p + 2), load_pair<false>(p + 4), load_pair<false>(p + 6)};
    }
  }
  static SILT_DEVICE void store_row(Global<uint16_t> p, f32x4 a, f32x4 b) {
    const u32x4 v = {pack_bf16(a[0], a[1]), pack_bf16(a[2], a[3]), pack_bf16(b[0], b[1]), pack_bf16(b[2], b[3])};
    if constexpr (kAligned) {
      store_stream(p, v);
    } else {
      for (uint32_t i = 0; i < 4; ++i) store_pair<false>(p + 2 * i, v[i]);
    }
  }
  /// unpack that stays behind this point of the program (`late`).
  static SILT_DEVICE void unpack_late(const Packed& s, f32x4& a, f32x4& b) { unpack(late(s), a, b); }
  static SILT_DEVICE void unpack(const Packed& s, f32x4& a, f32x4& b) {
    const uint32_t p0 = s[0], p1 = s[1], p2 = s[2], p3 = s[3];
    a = f32x4{low_bf16(p0), high_bf16(p0), low_bf16(p1), high_bf16(p1)};
    b = f32x4{low_bf16(p2), high_bf16(p2), low_bf16(p3), high_bf16(p3)};
  }
};

/// sum * r, and 0 where r says that the vector's squares have left the fp32 range (contract.md, overflow): the sum may
/// have left it too.
SILT_DEVICE float normalised(float sum, float r) { return r == 0.0F ? 0.0F : sum * r; }

SILT_DEVICE float decay_of(float g, float a, float lower_bound, bool softplus_gate) {
  const float log_decay = softplus_gate ? -a * softplus(g) : lower_bound * fast_sigmoid(a * g);
  return fast_exp(log_decay);
}

/// Where a token's vectors stand in local memory, in floats.
struct LocalPlaces {
  uint32_t q, k, decay, beta;
};
/// A lane's eight columns of the head's vectors, and the head's sums. The norms are applied to the scalars of a row,
/// never to the vectors. No block reduction: each group of 16 lanes holds all columns between its lanes.
struct HeadColumns {
  f32x4 ka, kb, qa, qb, da, db;
  float beta;
  float rk;  // 1 / |k|
  float rq;  // 128^-0.5 / |q|
  float kq;  // k.q of the normalised vectors
};
template <class State>
SILT_DEVICE HeadColumns head_columns(Lds lds, uint32_t column, const LocalPlaces& at) {
  const uint32_t c0 = column * State::kFirstColumn;
  const uint32_t c1 = c0 + State::kSecond;
  HeadColumns h;
  h.ka = lds_get4(lds, at.k + c0), h.kb = lds_get4(lds, at.k + c1);
  h.qa = lds_get4(lds, at.q + c0), h.qb = lds_get4(lds, at.q + c1);
  h.da = lds_get4(lds, at.decay + c0), h.db = lds_get4(lds, at.decay + c1);
  h.beta = lds_get(lds, at.beta);
  h.rk = fast_rsqrt(sum16(dot8(h.ka, h.kb, h.ka, h.kb)) + kNormEps);
  h.rq = fast_rsqrt(sum16(dot8(h.qa, h.qb, h.qa, h.qb)) + kNormEps) * kInverseRootDim;
  h.kq = normalised(normalised(sum16(dot8(h.ka, h.kb, h.qa, h.qb)), h.rk), h.rq);
  return h;
}

/// One row: decay, both dots, correction, rank-1 update; returns its output, in all 16 lanes.
SILT_DEVICE float update_row(const HeadColumns& h, float v, f32x4& sa, f32x4& sb) {
  sa *= h.da;
  sb *= h.db;
  const float u = normalised(sum16(dot8(sa, sb, h.ka, h.kb)), h.rk);
  const float sq = normalised(sum16(dot8(sa, sb, h.qa, h.qb)), h.rq);
  const float e = (v - u) * h.beta;
  const f32x4 step = splat(e * h.rk);
  sa = fma4(step, h.ka, sa);
  sb = fma4(step, h.kb, sb);
  return fma1(e, h.kq, sq);
}

}  // namespace silt::kda_hip
