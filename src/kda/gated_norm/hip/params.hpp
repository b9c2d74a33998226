// What the AMD kernels of this room take: the checked call as plain pointers, strides and numbers. It is the kernel's
// argument block byte for byte, on host and device; members of 8 bytes come first, so that it has no gaps.
#pragma once

#include "gpu/hip/types.hpp"

namespace silt::rms_norm_gated_hip {

using namespace hip;

constexpr uint32_t kThreads = 256;
constexpr uint32_t kItemLanes = 16;
constexpr uint32_t kItemsPerGroup = kThreads / kItemLanes;

/// bf16 tensors are seen as their bits. Strides are in elements.
struct Params {
  Global<const void> x;
  Global<const uint16_t> gate;
  Global<const float> weight;
  Global<void> output;
  int64_t x_stride;
  int64_t gate_stride;
  int64_t output_stride;
  uint32_t items;  // rows * heads
  uint32_t heads;
  uint32_t heads_reciprocal;
  float eps;
  uint32_t silu;
  uint32_t unused;  // the block is a multiple of 8 bytes
};
static_assert(sizeof(Params) == 4 * 8 + 3 * 8 + 6 * 4);

}  // namespace silt::rms_norm_gated_hip
