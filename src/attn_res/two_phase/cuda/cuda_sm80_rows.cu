// What: attn_res_partials and attn_res_merge (contract.md) on any NVIDIA GPU from sm_80 on: the portable kernels.
//
// When: bf16; any hidden size, strides, alignment, bf16 or fp32 partials, and as many blocks as their sums fit 48 KiB
// (cuda_sm80_rows.hpp).
//
// Plan: one block per token (more tokens than the grid can hold: in turns). A thread owns the same columns in every
// phase. Sweep: statistics of four sources by all queries at once, softmax of every query, then the mixtures of all
// queries beside each other. Merge: p and its statistics, the mixture for its norm, the mixture once more for the
// store.
//
// Data path: rows are read from memory in the first pass and from L1 or L2 in the later ones; nothing is staged.
// Columns belong to one thread, so no barrier stands between a row and its readers. Barriers publish the sums of the
// warps and the softmax weights; the last one of a token frees them.
//
// Dependent launch: never. The attribute needs an instruction of sm_90; without it a launch waits for all before it.
//
// Bytes: sweep 2*D*nb read and Q*(2*D + 8) written per token, merge 2*D*(1 + 2*delta + write + 2) + 8 (cost.cpp).
//
// Rounding: fp32; one rounding of mix, of p and of the output. Order of a sum: columns of a thread, lanes by
// reduce-scatter, warps one after the other. It depends on D and the alignment of the rows alone: not on the tokens,
// and a query's sums are made the same way however many there are.
//
// Roofline: a fallback. 8 queries are 4 multiply-adds a bank element and query, which fp32 units need longer for than
// memory: a sweep of this kind took 1.6 times the tensor-core one on an H200 (ladder, two phases).
#include "attn_res/two_phase/cuda/cuda_sm80_rows.hpp"
#include "attn_res/two_phase/cuda/rows.hpp"
#include "gpu/launch.hpp"
#include "gpu/warp.hpp"

namespace silt::attn_res_two_phase_cuda_sm80_rows {
namespace {

using attn_res_two_phase_cuda::exp2_fast;
using attn_res_two_phase_cuda::kLog2E;
using attn_res_two_phase_cuda::load_columns;
using attn_res_two_phase_cuda::Merge;
using attn_res_two_phase_cuda::store_columns;
using attn_res_two_phase_cuda::Sweep;

constexpr int kQueries = static_cast<int>(kAttnResMostQueries);
constexpr int kGroupValues = kSourcesAtOnce * kValuesPerSource;

template <int kWidth>
SILT_DEVICE int first_column() {
  return static_cast<int>(threadIdx.x) * kWidth;
}
template <int kWidth>
SILT_DEVICE int column_step() {
  return static_cast<int>(blockDim.x) * kWidth;
}

template <int kWidth>
SILT_DEVICE void load_weight(const uint16_t* norm, const uint16_t* qk, float (&w)[kWidth]) {
  float other[kWidth];
  load_columns<kWidth>(norm, w);
  load_columns<kWidth>(qk, other);
#pragma unroll
  for (int k = 0; k < kWidth; ++k) w[k] *= other[k];
}

// ---------------------------------------------------------------- sweep

/// Over this thread's columns, for sources first..first + 3: dot products with every query, then the sums of squares.
template <int kWidth, class Mix>
SILT_DEVICE void statistics(const Sweep<Mix>& p, const uint16_t* bank, int first, float (&sums)[kGroupValues]) {
#pragma unroll
  for (float& sum : sums) sum = 0.0F;
#pragma unroll 1
  for (int c = first_column<kWidth>(); c < p.d; c += column_step<kWidth>()) {
    float v[kSourcesAtOnce][kWidth] = {};
#pragma unroll
    for (int i = 0; i < kSourcesAtOnce; ++i) {
      if (first + i < p.n) load_columns<kWidth>(bank + (first + i) * p.block_slot_stride + c, v[i]);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        float& squares = sums[i * kValuesPerSource + kQueries];
        squares = fmaf(v[i][k], v[i][k], squares);
      }
    }
#pragma unroll
    for (int q = 0; q < kQueries; ++q) {
      if (q >= p.q) break;
      float w[kWidth];
      load_weight<kWidth>(p.norm_weight + q * p.norm_weight_stride + c, p.qk_weight + q * p.qk_weight_stride + c, w);
#pragma unroll
      for (int i = 0; i < kSourcesAtOnce; ++i) {
#pragma unroll
        for (int k = 0; k < kWidth; ++k) {
          float& dot = sums[i * kValuesPerSource + q];
          dot = fmaf(v[i][k], w[k], dot);
        }
      }
    }
  }
}

/// Softmax numerators of every query and source to `weights`, m and s to memory. An absent query's are of no use.
template <class Mix>
SILT_DEVICE void softmax(const Sweep<Mix>& p, int64_t token, const float* sums, float* weights) {
  const int warps = static_cast<int>(blockDim.x) / gpu::kWarpLanes;
  const auto total = [&](int source, int value) {
    const int at = source / kSourcesAtOnce * kGroupValues + source % kSourcesAtOnce * kValuesPerSource + value;
    float sum = 0.0F;
    for (int w = 0; w < warps; ++w) sum += sums[at * warps + w];
    return sum;
  };
  for (int at = static_cast<int>(threadIdx.x); at < p.n * kQueries; at += static_cast<int>(blockDim.x)) {
    const int source = at / kQueries;
    weights[at] = total(source, at % kQueries) * rsqrtf(fmaf(total(source, kQueries), p.inverse_d, p.eps));
  }
  __syncthreads();
  const int q = static_cast<int>(threadIdx.x);
  if (q >= p.q) return;
  float largest = -INFINITY;
  for (int i = 0; i < p.n; ++i) largest = fmaxf(largest, weights[i * kQueries + q]);
  float denominator = 0.0F;
  for (int i = 0; i < p.n; ++i) {
    const float e = exp2_fast((weights[i * kQueries + q] - largest) * kLog2E);
    weights[i * kQueries + q] = e;
    denominator += e;
  }
  float* pair = p.statistics + q * p.statistics_query_stride + token * p.statistics_token_stride;
  pair[0] = largest;
  pair[1] = denominator;
}

template <int kWidth, class Mix>
SILT_DEVICE void mixtures(const Sweep<Mix>& p, const uint16_t* bank, int64_t token, const float* weights) {
#pragma unroll 1
  for (int c = first_column<kWidth>(); c < p.d; c += column_step<kWidth>()) {
    float mix[kQueries][kWidth] = {};
#pragma unroll 1
    for (int i = 0; i < p.n; ++i) {
      float v[kWidth];
      load_columns<kWidth>(bank + i * p.block_slot_stride + c, v);
#pragma unroll
      for (int q = 0; q < kQueries; ++q) {
        const float weight = weights[i * kQueries + q];
#pragma unroll
        for (int k = 0; k < kWidth; ++k) mix[q][k] = fmaf(weight, v[k], mix[q][k]);
      }
    }
    Mix* row = p.mix + token * p.mix_token_stride + c;
#pragma unroll
    for (int q = 0; q < kQueries; ++q) {
      if (q < p.q) store_columns<kWidth>(row + q * p.mix_query_stride, mix[q]);
    }
  }
}

template <int kWidth, class Mix>
__global__ void __launch_bounds__(kMostThreads, 1) attn_res_partials_cuda_sm80_rows(const Sweep<Mix> p) {
  extern __shared__ __align__(16) float shared[];
  const int warps = static_cast<int>(blockDim.x) / gpu::kWarpLanes;
  const int groups = (p.n + kSourcesAtOnce - 1) / kSourcesAtOnce;
  float* weights = shared + groups * kGroupValues * warps;  // [source][query]
  const int lane = gpu::lane_index();
  const gpu::Scattered held = gpu::scattered<kGroupValues>(lane);

  for (int64_t token = blockIdx.x; token < p.t; token += gridDim.x) {
    const uint16_t* bank = p.blocks + token * p.block_token_stride;
    for (int group = 0; group < groups; ++group) {
      float sums[kGroupValues];
      statistics<kWidth>(p, bank, group * kSourcesAtOnce, sums);
      gpu::reduce_scatter<kGroupValues, gpu::kWarpLanes / 2>(sums, lane);
#pragma unroll
      for (int i = 0; i < 2; ++i) {  // 36 values over 32 lanes: at most two each
        if (i < held.count) {
          shared[(group * kGroupValues + held.first + i) * warps + gpu::warp_index()] = sums[i];
        }
      }
    }
    __syncthreads();
    softmax(p, token, shared, weights);
    __syncthreads();
    mixtures<kWidth>(p, bank, token, weights);
    __syncthreads();  // sums and weights are free for the next token
  }
}

// ---------------------------------------------------------------- merge

/// Sum of two values over the block, in every thread; `scratch` has two floats a warp.
SILT_DEVICE float2 block_sum(float first, float second, float2* scratch) {
  first = gpu::lane_sum(first);
  second = gpu::lane_sum(second);
  if (gpu::lane_index() == 0) scratch[gpu::warp_index()] = make_float2(first, second);
  __syncthreads();
  float2 total = make_float2(0.0F, 0.0F);
  for (int w = 0; w < static_cast<int>(blockDim.x) / gpu::kWarpLanes; ++w) {
    total.x += scratch[w].x;
    total.y += scratch[w].y;
  }
  return total;
}

/// p = prefix + delta where they belong, and its dot product and sum of squares over this thread's columns.
template <int kWidth, class Mix>
SILT_DEVICE float2 update_prefix(const Merge<Mix>& p, int64_t token) {
  uint16_t* prefix = p.prefix + token * p.prefix_stride;
  float2 sums = make_float2(0.0F, 0.0F);
#pragma unroll 1
  for (int c = first_column<kWidth>(); c < p.d; c += column_step<kWidth>()) {
    float v[kWidth];
    load_columns<kWidth>(prefix + c, v);
    if (p.delta != nullptr) {
      float added[kWidth];
      load_columns<kWidth>(p.delta + token * p.delta_stride + c, added);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) v[k] = gpu::bf16_to_float(gpu::float_to_bf16(v[k] + added[k]));
      store_columns<kWidth>(prefix + c, v);
    }
    if (p.slot != nullptr) store_columns<kWidth>(p.slot + token * p.slot_stride + c, v);
    float w[kWidth];
    load_weight<kWidth>(p.norm_weight + c, p.qk_weight + c, w);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      sums.x = fmaf(v[k], w[k], sums.x);
      sums.y = fmaf(v[k], v[k], sums.y);
    }
  }
  return sums;
}

template <int kWidth, class Mix>
SILT_DEVICE void mixture(const Merge<Mix>& p, int64_t token, const attn_res_two_phase_cuda::Shares& shares, int c,
                         float (&mix)[kWidth]) {
  float own[kWidth];
  load_columns<kWidth>(p.mix + token * p.mix_stride + c, mix);
  load_columns<kWidth>(p.prefix + token * p.prefix_stride + c, own);
#pragma unroll
  for (int k = 0; k < kWidth; ++k) mix[k] = fmaf(shares.bank, mix[k], shares.prefix * own[k]) * shares.inverse;
}

template <int kWidth, class Mix>
__global__ void __launch_bounds__(kMostThreads, 2) attn_res_merge_cuda_sm80_rows(const Merge<Mix> p) {
  __shared__ float2 scratch[2][kMostThreads / gpu::kWarpLanes];
  for (int64_t token = blockIdx.x; token < p.t; token += gridDim.x) {
    const float2 own = update_prefix<kWidth>(p, token);
    const float2 total = block_sum(own.x, own.y, scratch[0]);
    const float* pair = p.statistics + token * p.statistics_stride;
    const float logit = total.x * rsqrtf(fmaf(total.y, p.inverse_d, p.eps));
    const attn_res_two_phase_cuda::Shares shares = attn_res_two_phase_cuda::shares_of(pair[0], pair[1], logit);
    float scale = 1.0F;
    if (p.output_norm_weight != nullptr) {
      float squares = 0.0F;
#pragma unroll 1
      for (int c = first_column<kWidth>(); c < p.d; c += column_step<kWidth>()) {
        float mix[kWidth];
        mixture<kWidth>(p, token, shares, c, mix);
#pragma unroll
        for (int k = 0; k < kWidth; ++k) squares = fmaf(mix[k], mix[k], squares);
      }
      scale = rsqrtf(fmaf(block_sum(squares, 0.0F, scratch[1]).x, p.inverse_d, p.output_norm_eps));
    }
    uint16_t* output = p.output + token * p.output_stride;
#pragma unroll 1
    for (int c = first_column<kWidth>(); c < p.d; c += column_step<kWidth>()) {
      float mix[kWidth];
      mixture<kWidth>(p, token, shares, c, mix);
      if (p.output_norm_weight != nullptr) {
        float g[kWidth];
        load_columns<kWidth>(p.output_norm_weight + c, g);
#pragma unroll
        for (int k = 0; k < kWidth; ++k) mix[k] *= scale * g[k];
      }
      store_columns<kWidth>(output + c, mix);
    }
    __syncthreads();  // both sums are free for the next token
  }
}

template <class Problem>
gpu::LaunchShape shape_of(const Problem& problem, int width, int64_t shared_bytes) {
  gpu::LaunchShape shape;
  shape.grid = problem.t < INT32_MAX ? problem.t : INT32_MAX;
  shape.block = threads(problem.d, width);
  shape.shared_bytes = static_cast<size_t>(shared_bytes);
  return shape;
}

template <int kWidth, class Mix>
Status run(const AttnResPartialsProblem& problem, const AttnResPartialsArgs& args, const Launch& launch) {
  return gpu::launch({"attn_res_partials", "cuda_sm80_rows"}, attn_res_partials_cuda_sm80_rows<kWidth, Mix>,
                     shape_of(problem, kWidth, sweep_bytes(problem.n, threads(problem.d, kWidth))), args.blocks.device,
                     launch, attn_res_two_phase_cuda::make_sweep<Mix>(problem, args));
}
template <int kWidth, class Mix>
Status run(const AttnResMergeProblem& problem, const AttnResMergeArgs& args, const Launch& launch) {
  return gpu::launch({"attn_res_merge", "cuda_sm80_rows"}, attn_res_merge_cuda_sm80_rows<kWidth, Mix>,
                     shape_of(problem, kWidth, 0), args.prefix.device, launch,
                     attn_res_two_phase_cuda::make_merge<Mix>(problem, args));
}

template <class Mix, class Problem, class Args>
Status run_width(const Problem& problem, const Args& args, const Launch& launch) {
  const int width = columns_at_once(problem);
  return width == 8   ? run<8, Mix>(problem, args, launch)
         : width == 2 ? run<2, Mix>(problem, args, launch)
                      : run<1, Mix>(problem, args, launch);
}

}  // namespace

Status launch_partials(const AttnResPartialsProblem& problem, const AttnResPartialsArgs& args, const Launch& launch) {
  return problem.partial == DType::bf16 ? run_width<uint16_t>(problem, args, launch)
                                        : run_width<float>(problem, args, launch);
}

Status launch_merge(const AttnResMergeProblem& problem, const AttnResMergeArgs& args, const Launch& launch) {
  return problem.partial == DType::bf16 ? run_width<uint16_t>(problem, args, launch)
                                        : run_width<float>(problem, args, launch);
}

}  // namespace silt::attn_res_two_phase_cuda_sm80_rows
