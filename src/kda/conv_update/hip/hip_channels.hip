// What: causal_conv1d_update (contract.md) on AMD CDNA 3 and 4: hip_gfx942_channels and hip_gfx950_channels, one
// source.
//
// When: bf16 x and history; output bf16 or fp32; any channel count, token count, strides and alignment.
//
// Plan: a lane per (sequence, channel) walks the tokens with its window in registers; 256 channels a workgroup.
//
// Data path: weights, bias and history once, then x token by token, each two bytes a lane and contiguous over channels
// (DS history: six bytes apart). A channel has one lane, which reads its history before it shifts it.
//
// Bytes: history read and written, x and output once (cost.cpp).
//
// Roofline (derived; this kernel has never been timed): bandwidth; a wave's access is 128 bytes, one cache line. At
// decode sizes the launch itself, which the fused kda_decode saves.
//
// Rounding: fp32 in the order bias, oldest tap to newest, one rounding: the order of kda_decode's kernels.
#include "gpu/hip/device.hpp"
#include "kda/conv_update/hip/params.hpp"
#include "kda/shared/hip/delta_rule.hpp"

namespace silt::causal_conv1d_update_hip {
namespace {

SILT_DEVICE void put(Global<uint16_t> at, float value) { store(at, static_cast<uint16_t>(pack_bf16(value, 0.0F))); }
SILT_DEVICE void put(Global<float> at, float value) { store(at, value); }

template <class Output>
SILT_DEVICE void update(const Params& args) {
  const auto [sequence, group] = kda_hip::divide(group_id(), args.groups_per_sequence, args.groups_reciprocal);
  const uint32_t channel = group * kThreads + thread_id();
  if (channel >= args.channels) return;
  const Global<Output> output = static_cast<Global<Output>>(args.output) + sequence * args.output_stride + channel;
  const int32_t slot = args.indices[sequence];
  if (slot <= args.null_slot || slot >= args.slots) {
    for (int64_t t = 0; t < args.tokens; ++t) put(output + t * args.output_token_stride, 0.0F);
    return;
  }
  const uint32_t part_channels = args.channels / 3;
  const uint32_t part = (channel >= part_channels ? 1u : 0u) + (channel >= 2 * part_channels ? 1u : 0u);
  // part * 4P + channel - part * P
  const Global<const float> taps = args.weight + static_cast<int64_t>(part) * 3 * part_channels + channel;
  const float w0 = load<float>(taps);
  const float w1 = load<float>(taps + part_channels);
  const float w2 = load<float>(taps + 2 * static_cast<int64_t>(part_channels));
  const float w3 = load<float>(taps + 3 * static_cast<int64_t>(part_channels));
  const bool has_bias = args.bias != nullptr;
  const float loaded_bias = load<float>(has_bias ? args.bias + channel : taps);
  const float bias = has_bias ? loaded_bias : 0.0F;
  const Global<uint16_t> history =
      args.history + slot * args.history_slot_stride + channel * args.history_channel_stride;
  uint16_t h0 = load<uint16_t>(history);
  uint16_t h1 = load<uint16_t>(history + args.history_step_stride);
  uint16_t h2 = load<uint16_t>(history + 2 * args.history_step_stride);
  const Global<const uint16_t> x = args.x + sequence * args.x_stride + channel;
  for (int64_t t = 0; t < args.tokens; ++t) {
    const uint16_t now = load<uint16_t>(x + t * args.x_token_stride);
    float y = fma1(w0, low_bf16(h0), bias);
    y = fma1(w1, low_bf16(h1), y);
    y = fma1(w2, low_bf16(h2), y);
    y = fma1(w3, low_bf16(now), y);
    put(output + t * args.output_token_stride, silu(y));
    h0 = h1;
    h1 = h2;
    h2 = now;
  }
  store(history, h0);
  store(history + args.history_step_stride, h1);
  store(history + 2 * args.history_step_stride, h2);
}

}  // namespace

SILT_KERNEL(causal_conv1d_update_hip_channels_bf16, Params, 256, 8) { update<uint16_t>(args); }
SILT_KERNEL(causal_conv1d_update_hip_channels_f32, Params, 256, 8) { update<float>(args); }

}  // namespace silt::causal_conv1d_update_hip
