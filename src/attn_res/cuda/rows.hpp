// What the CUDA kernels of attn_res share: their arguments, and the arithmetic on the eight values that a lane holds of
// a row. Device code.
#pragma once

#include "attn_res/launch_params.hpp"
#include "gpu/bf16.hpp"
#include "gpu/memory.hpp"
#include "gpu/warp.hpp"

namespace silt::attn_res_cuda {

/// The arguments as a kernel takes them. Strides are in elements; pointers are to bf16.
struct Rows {
  uint16_t* prefix;
  const uint16_t* delta;  ///< null: none, and prefix is only read
  const uint16_t* blocks;
  uint16_t* written;  ///< the slot that takes p, of token 0; null: none
  const uint16_t* norm_weight;
  const uint16_t* qk_weight;
  const uint16_t* output_norm_weight;
  uint16_t* output;
  int64_t prefix_stride;
  int64_t delta_stride;
  int64_t block_token_stride;
  int64_t block_slot_stride;
  int64_t output_stride;
  int64_t t;
  int32_t d;
  int32_t n;
  int32_t stable;  ///< leading slots that may be read before the dependency wait
  float inverse_d;
  float eps;
  float output_norm_eps;
};

inline Rows make_rows(const AttnResProblem& problem, const AttnResArgs& args) {
  auto rows = params_of<Rows>(problem, args);
  rows.stable = static_cast<int32_t>(problem.stable_rows());
  return rows;
}

/// w = norm_weight * qk_weight of eight columns.
SILT_DEVICE void weight_product(uint4 norm, uint4 qk, float (&w)[8]) {
  float other[8];
  gpu::unpack_bf16(norm, w);
  gpu::unpack_bf16(qk, other);
#pragma unroll
  for (int i = 0; i < 8; ++i) w[i] *= other[i];
}

/// Adds eight columns to a row's dot product and sum of squares.
SILT_DEVICE void add_statistics(uint4 row, const float (&w)[8], float& dot, float& squares) {
  float v[8];
  gpu::unpack_bf16(row, v);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    squares = fmaf(v[i], v[i], squares);
    dot = fmaf(v[i], w[i], dot);
  }
}

SILT_DEVICE void add_scaled(uint4 row, float weight, float (&mix)[8]) {
  float v[8];
  gpu::unpack_bf16_again(row, v);
#pragma unroll
  for (int i = 0; i < 8; ++i) mix[i] = fmaf(weight, v[i], mix[i]);
}

SILT_DEVICE float sum_of_squares(const float (&mix)[8]) {
  float sum = 0.0F;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum = fmaf(mix[i], mix[i], sum);
  return sum;
}

/// mix * scale * g, rounded once.
SILT_DEVICE uint4 normalised(const float (&mix)[8], float scale, uint4 g) {
  float out[8];
  gpu::unpack_bf16(g, out);
#pragma unroll
  for (int i = 0; i < 8; ++i) out[i] *= mix[i] * scale;
  return gpu::pack_bf16(out);
}

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

/// Softmax over kSources sources of a token, not yet divided by its sum. Lane i holds total i: dot products of sources
/// 0.. in lanes 0.., sums of squares in the kSources lanes behind. Returns exp(logit - largest)/16 of source `lane`;
/// other lanes get nothing of use. A sum of squares beyond the fp32 range gives 1/sqrt(inf) = 0, as contract.md asks.
/// The 16 keeps a mixture by these numerators below its largest row, so that it overflows no earlier than the result.
template <int kSources>
SILT_DEVICE float softmax_numerator(float total, int lane, float inverse_d, float eps) {
  static_assert(2 * kSources <= gpu::kWarpLanes && kSources <= 16);
  constexpr float kLog2E = 1.4426950408889634F;
  constexpr float kLog2Of16 = 4.0F;
  constexpr int kGroup = kSources > 8 ? 16 : kSources > 4 ? 8 : kSources > 2 ? 4 : 2;
  const float squares = __shfl_sync(gpu::kAllLanes, total, (lane + kSources) & (gpu::kWarpLanes - 1));
  const bool held = lane < kSources;
  const float logit = held ? total * rsqrtf(fmaf(squares, inverse_d, eps)) : -INFINITY;
  const float largest = gpu::lane_max<kGroup>(logit);
  return held ? exp2_fast(fmaf(logit - largest, kLog2E, -kLog2Of16)) : 0.0F;
}

/// The same divided by the sum: the weight of source `lane`.
template <int kSources>
SILT_DEVICE float softmax_weight(float total, int lane, float inverse_d, float eps) {
  constexpr int kGroup = kSources > 8 ? 16 : kSources > 4 ? 8 : kSources > 2 ? 4 : 2;
  const float e = softmax_numerator<kSources>(total, lane, inverse_d, eps);
  return e * reciprocal_fast(gpu::lane_sum<kGroup>(e));
}

}  // namespace silt::attn_res_cuda
