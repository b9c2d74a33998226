// What the CUDA kernels of attn_res_partials and attn_res_merge share: their arguments as a kernel takes them. Strides
// are in elements; activations are bf16, given as their bits. Device code.
#pragma once

#include <type_traits>

#include "attn_res/two_phase/problem.hpp"
#include "gpu/bf16.hpp"
#include "gpu/memory.hpp"

namespace silt::attn_res_two_phase_cuda {

/// A sweep; Mix is uint16_t (bf16) or float.
template <class Mix>
struct Sweep {
  const uint16_t* blocks;
  const uint16_t* norm_weight;
  const uint16_t* qk_weight;
  float* statistics;
  Mix* mix;
  int64_t block_token_stride;
  int64_t block_slot_stride;
  int64_t norm_weight_stride;
  int64_t qk_weight_stride;
  int64_t statistics_query_stride;
  int64_t statistics_token_stride;
  int64_t mix_query_stride;
  int64_t mix_token_stride;
  int64_t t;
  int32_t d;
  int32_t n;
  int32_t q;
  float inverse_d;
  float eps;
};

template <class Mix>
Sweep<Mix> make_sweep(const AttnResPartialsProblem& problem, const AttnResPartialsArgs& args) {
  Sweep<Mix> sweep{};
  sweep.blocks = static_cast<const uint16_t*>(args.blocks.data);
  sweep.norm_weight = static_cast<const uint16_t*>(args.norm_weight.data);
  sweep.qk_weight = static_cast<const uint16_t*>(args.qk_weight.data);
  sweep.statistics = static_cast<float*>(args.statistics.data);
  sweep.mix = static_cast<Mix*>(args.mix.data);
  sweep.block_token_stride = problem.block_token_stride;
  sweep.block_slot_stride = problem.block_slot_stride;
  sweep.norm_weight_stride = problem.norm_weight_stride;
  sweep.qk_weight_stride = problem.qk_weight_stride;
  sweep.statistics_query_stride = problem.statistics_query_stride;
  sweep.statistics_token_stride = problem.statistics_token_stride;
  sweep.mix_query_stride = problem.mix_query_stride;
  sweep.mix_token_stride = problem.mix_token_stride;
  sweep.t = problem.t;
  sweep.d = static_cast<int32_t>(problem.d);
  sweep.n = static_cast<int32_t>(problem.n);
  sweep.q = static_cast<int32_t>(problem.q);
  sweep.inverse_d = 1.0F / static_cast<float>(problem.d);
  sweep.eps = args.eps;
  return sweep;
}

/// A merge; Mix is uint16_t (bf16) or float.
template <class Mix>
struct Merge {
  uint16_t* prefix;
  const uint16_t* delta;  ///< null: none, and prefix is only read
  const float* statistics;
  const Mix* mix;
  uint16_t* slot;  ///< null: none
  const uint16_t* norm_weight;
  const uint16_t* qk_weight;
  const uint16_t* output_norm_weight;  ///< null: no output norm
  uint16_t* output;
  int64_t prefix_stride;
  int64_t delta_stride;
  int64_t statistics_stride;
  int64_t mix_stride;
  int64_t slot_stride;
  int64_t output_stride;
  int64_t t;
  int32_t d;
  float inverse_d;
  float eps;
  float output_norm_eps;
};

template <class Mix>
Merge<Mix> make_merge(const AttnResMergeProblem& problem, const AttnResMergeArgs& args) {
  Merge<Mix> merge{};
  merge.prefix = static_cast<uint16_t*>(args.prefix.data);
  merge.delta = static_cast<const uint16_t*>(args.delta.data);
  merge.statistics = static_cast<const float*>(args.statistics.data);
  merge.mix = static_cast<const Mix*>(args.mix.data);
  merge.slot = static_cast<uint16_t*>(args.slot.data);
  merge.norm_weight = static_cast<const uint16_t*>(args.norm_weight.data);
  merge.qk_weight = static_cast<const uint16_t*>(args.qk_weight.data);
  merge.output_norm_weight = static_cast<const uint16_t*>(args.output_norm_weight.data);
  merge.output = static_cast<uint16_t*>(args.output.data);
  merge.prefix_stride = problem.prefix_stride;
  merge.delta_stride = problem.delta_stride;
  merge.statistics_stride = problem.statistics_stride;
  merge.mix_stride = problem.mix_stride;
  merge.slot_stride = problem.slot_stride;
  merge.output_stride = problem.output_stride;
  merge.t = problem.t;
  merge.d = static_cast<int32_t>(problem.d);
  merge.inverse_d = 1.0F / static_cast<float>(problem.d);
  merge.eps = args.eps;
  merge.output_norm_eps = args.output_norm_eps;
  return merge;
}

constexpr float kLog2E = 1.4426950408889634F;

/// 2^x; 0 far below, NaN stays NaN.
SILT_DEVICE float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// 1/x of an ordinary number.
SILT_DEVICE float reciprocal_fast(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// What a merge multiplies the partial and p with, and their sum. m, s: the partial's statistics; logit: that of p. The
/// factors carry 1/16, so that the mixture overflows no earlier than the result.
struct Shares {
  float bank;
  float prefix;
  float inverse;  ///< of bank * s + prefix
};
SILT_DEVICE Shares shares_of(float m, float s, float logit) {
  constexpr float kLog2Of16 = 4.0F;
  const float largest = fmaxf(m, logit);  // a NaN in either comes back below
  Shares shares;
  shares.bank = exp2_fast(fmaf(m - largest, kLog2E, -kLog2Of16));
  shares.prefix = exp2_fast(fmaf(logit - largest, kLog2E, -kLog2Of16));
  shares.inverse = reciprocal_fast(fmaf(shares.bank, s, shares.prefix));
  return shares;
}

/// kWidth neighbours of a row, one access each where the row's alignment allows it: 8 (16 bytes of bf16), 2 or 1.
template <int kWidth>
SILT_DEVICE void load_columns(const uint16_t* source, float (&v)[kWidth]) {
  if constexpr (kWidth == 8) {
    gpu::unpack_bf16(*reinterpret_cast<const uint4*>(source), v);
  } else if constexpr (kWidth == 2) {
    const uint32_t pair = *reinterpret_cast<const uint32_t*>(source);
    v[0] = gpu::low_bf16(pair);
    v[1] = gpu::high_bf16(pair);
  } else {
    v[0] = gpu::bf16_to_float(*source);
  }
}
template <int kWidth>
SILT_DEVICE void store_columns(uint16_t* target, const float (&v)[kWidth]) {
  if constexpr (kWidth == 8) {
    *reinterpret_cast<uint4*>(target) = gpu::pack_bf16(v);
  } else if constexpr (kWidth == 2) {
    *reinterpret_cast<uint32_t*>(target) = gpu::pack_bf16(v[0], v[1]);
  } else {
    *target = gpu::float_to_bf16(v[0]);
  }
}
template <int kWidth>
SILT_DEVICE void load_columns(const float* source, float (&v)[kWidth]) {
  if constexpr (kWidth == 8) {
    const float4 low = *reinterpret_cast<const float4*>(source);
    const float4 high = *reinterpret_cast<const float4*>(source + 4);
    v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w;
    v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
  } else {
#pragma unroll
    for (int k = 0; k < kWidth; ++k) v[k] = source[k];
  }
}
template <int kWidth>
SILT_DEVICE void store_columns(float* target, const float (&v)[kWidth]) {
  if constexpr (kWidth == 8) {
    *reinterpret_cast<float4*>(target) = make_float4(v[0], v[1], v[2], v[3]);
    *reinterpret_cast<float4*>(target + 4) = make_float4(v[4], v[5], v[6], v[7]);
  } else {
#pragma unroll
    for (int k = 0; k < kWidth; ++k) target[k] = v[k];
  }
}

}  // namespace silt::attn_res_two_phase_cuda
