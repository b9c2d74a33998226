// What: causal_conv1d_update (contract.md) on any NVIDIA GPU from sm_80 on.
//
// When: bf16 x and history; output bf16 or fp32; any channel count, token count, strides and alignment.
//
// Plan: a thread per (sequence, channel) walks the tokens with its window in registers; 256 channels a block, grid on
// x.
//
// Data path: weights, bias and history once, then x token by token, each two bytes a thread and coalesced over channels
// (DS history: six bytes apart). A channel has one thread, which reads its history before it shifts it.
//
// Bytes: history read and written, x and output once (cost.cpp).
//
// Roofline: bandwidth; at decode sizes the launch itself, which the fused kda_decode saves.
//
// Rounding: fp32 in the order bias, oldest tap to newest, one rounding: the order of kda_decode's kernels.
#include "gpu/access.hpp"
#include "gpu/bf16.hpp"
#include "gpu/fast_math.hpp"
#include "kda/conv_update/cuda/params.hpp"

namespace silt::causal_conv1d_update_cuda {
namespace {

SILT_DEVICE void put(uint16_t* at, float value) { *at = gpu::float_to_bf16(value); }
SILT_DEVICE void put(float* at, float value) { *at = value; }

template <class Output>
__global__ void __launch_bounds__(kThreads) causal_conv1d_update_cuda_sm80_channels(const __grid_constant__ Params p) {
  const uint32_t sequence = blockIdx.x / p.blocks_per_sequence;
  const uint32_t channel = (blockIdx.x - sequence * p.blocks_per_sequence) * kThreads + threadIdx.x;
  if (channel >= p.channels) return;
  Output* output = static_cast<Output*>(p.output) + sequence * p.output_stride + channel;
  const int slot = gpu::load(p.indices + sequence);
  if (slot <= p.null_slot || slot >= p.slots) {
    for (int64_t t = 0; t < p.tokens; ++t) put(output + t * p.output_token_stride, 0);
    return;
  }
  const uint32_t part_channels = p.channels / 3;
  const uint32_t part = channel / part_channels;
  const float* taps =
      p.weight + static_cast<int64_t>(part) * 3 * part_channels + channel;  // part * 4P + channel - part * P
  const float w0 = gpu::load(taps);
  const float w1 = gpu::load(taps + part_channels);
  const float w2 = gpu::load(taps + 2 * static_cast<int64_t>(part_channels));
  const float w3 = gpu::load(taps + 3 * static_cast<int64_t>(part_channels));
  const float bias = p.bias != nullptr ? gpu::load(p.bias + channel) : 0.0F;
  uint16_t* history = p.history + slot * p.history_slot_stride + channel * p.history_channel_stride;
  uint16_t h0 = gpu::load(history);
  uint16_t h1 = gpu::load(history + p.history_step_stride);
  uint16_t h2 = gpu::load(history + 2 * p.history_step_stride);
  const uint16_t* x = p.x + sequence * p.x_stride + channel;
  for (int64_t t = 0; t < p.tokens; ++t) {
    const uint16_t now = gpu::load(x + t * p.x_token_stride);
    float y = fmaf(w0, gpu::bf16_to_float(h0), bias);
    y = fmaf(w1, gpu::bf16_to_float(h1), y);
    y = fmaf(w2, gpu::bf16_to_float(h2), y);
    y = fmaf(w3, gpu::bf16_to_float(now), y);
    put(output + t * p.output_token_stride, y * gpu::fast_sigmoid(y));
    h0 = h1;
    h1 = h2;
    h2 = now;
  }
  history[0] = h0;
  history[p.history_step_stride] = h1;
  history[2 * p.history_step_stride] = h2;
}

}  // namespace

Kernel sm80_channels_kernel(bool output_is_f32) {
  return output_is_f32 ? causal_conv1d_update_cuda_sm80_channels<float>
                       : causal_conv1d_update_cuda_sm80_channels<uint16_t>;
}

}  // namespace silt::causal_conv1d_update_cuda
