// What the AMD kernels of this room take: the checked call as plain pointers, strides and numbers. It is the kernel's
// argument block byte for byte, on host and device; members of 8 bytes come first, so that it has no gaps.
#pragma once

#include "gpu/hip/types.hpp"

namespace silt::causal_conv1d_update_hip {

using namespace hip;

constexpr uint32_t kThreads = 256;

/// bf16 tensors are seen as their bits. Strides are in elements.
struct Params {
  Global<const uint16_t> x;
  Global<const float> weight;
  Global<const float> bias;  // null where absent
  Global<uint16_t> history;
  Uniform<int32_t> indices;
  Global<void> output;
  int64_t x_stride;
  int64_t x_token_stride;
  int64_t output_stride;
  int64_t output_token_stride;
  int64_t history_slot_stride;
  int64_t history_channel_stride;
  int64_t history_step_stride;
  int64_t tokens;
  uint32_t channels;
  uint32_t groups_per_sequence;
  uint32_t groups_reciprocal;
  int32_t slots;
  int32_t null_slot;
  uint32_t unused;  // the block is a multiple of 8 bytes
};
static_assert(sizeof(Params) == 6 * 8 + 8 * 8 + 6 * 4);

}  // namespace silt::causal_conv1d_update_hip
