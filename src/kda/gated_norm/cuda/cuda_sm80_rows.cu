// What: rms_norm_gated (contract.md) on any NVIDIA GPU from sm_80 on.
//
// When: bf16 gate; x and output bf16 or fp32; any strides and alignment.
//
// Plan: a warp per (row, head), four columns a lane, eight warps a block, grid on x.
//
// Data path: x, gate and weight once, one access each where aligned; output once. No shared memory, no barrier.
//
// Bytes: x, gate and output once (cost.cpp): 768 per head with bf16.
//
// Roofline: bandwidth; at decode sizes the launch itself. It is the last launch of the unfused chain, which the fused
// kda_decode saves.
//
// Rounding: fp32, one rounding; the sum of squares is the tree of kda_decode's output norm.
#include "gpu/access.hpp"
#include "kda/gated_norm/cuda/params.hpp"
#include "kda/shared/cuda/delta_rule.cuh"

namespace silt::rms_norm_gated_cuda {
namespace {

using kda_cuda::dot_add;
using kda_cuda::kHeadDim;
using kda_cuda::load_columns;
using kda_cuda::store_columns;

template <class X, class Output, bool kAligned>
__global__ void __launch_bounds__(kThreads) rms_norm_gated_cuda_sm80_rows(const __grid_constant__ Params p) {
  const uint32_t item = blockIdx.x * kItemsPerBlock + threadIdx.x / 32;
  if (item >= p.items) return;
  const uint32_t row = item / p.heads;
  const int64_t first = static_cast<int64_t>(item - row * p.heads) * kHeadDim + threadIdx.x % 32 * 4;
  const float4 x = load_columns<kAligned>(static_cast<const X*>(p.x) + row * p.x_stride + first);
  const float4 gate = load_columns<kAligned>(p.gate + row * p.gate_stride + first);
  const float4 weight = load_columns<kAligned>(p.weight + threadIdx.x % 32 * 4);
  const float scale = gpu::fast_rsqrt(gpu::lane_sum(dot_add(x, x, 0)) * (1.0F / kHeadDim) + p.eps);
  const auto open = [&](float g) { return p.silu ? g * gpu::fast_sigmoid(g) : gpu::fast_sigmoid(g); };
  store_columns<kAligned>(
      static_cast<Output*>(p.output) + row * p.output_stride + first,
      make_float4(x.x * scale * (weight.x * open(gate.x)), x.y * scale * (weight.y * open(gate.y)),
                  x.z * scale * (weight.z * open(gate.z)), x.w * scale * (weight.w * open(gate.w))));
}

template <class X, class Output>
Kernel pick(bool aligned) {
  return aligned ? rms_norm_gated_cuda_sm80_rows<X, Output, true> : rms_norm_gated_cuda_sm80_rows<X, Output, false>;
}

}  // namespace

Kernel sm80_rows_kernel(bool x_is_f32, bool output_is_f32, bool aligned) {
  if (x_is_f32) return output_is_f32 ? pick<float, float>(aligned) : pick<float, uint16_t>(aligned);
  return output_is_f32 ? pick<uint16_t, float>(aligned) : pick<uint16_t, uint16_t>(aligned);
}

}  // namespace silt::rms_norm_gated_cuda
