// What the CUDA kernel of this room takes.
#pragma once

#include <cstdint>

namespace silt::causal_conv1d_update_cuda {

/// bf16 tensors are seen as their bits. Strides are in elements.
struct Params {
  const uint16_t* x = nullptr;
  const float* weight = nullptr;
  const float* bias = nullptr;  // null where absent
  uint16_t* history = nullptr;
  const int32_t* indices = nullptr;
  void* output = nullptr;
  int64_t x_stride = 0;
  int64_t x_token_stride = 0;
  int64_t output_stride = 0;
  int64_t output_token_stride = 0;
  int64_t history_slot_stride = 0;
  int64_t history_channel_stride = 0;
  int64_t history_step_stride = 0;
  int64_t tokens = 0;
  uint32_t channels = 0;
  uint32_t blocks_per_sequence = 0;
  int32_t slots = 0;
  int32_t null_slot = 0;
};

constexpr int kThreads = 256;

using Kernel = void (*)(Params);
Kernel sm80_channels_kernel(bool output_is_f32);

}  // namespace silt::causal_conv1d_update_cuda
