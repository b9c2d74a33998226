// What the AMD kernels of this room take: the checked call as plain pointers, strides and numbers. It is the kernel's
// argument block byte for byte, on host and device; members of 8 bytes come first, so that it has no gaps.
#pragma once

#include "gpu/hip/types.hpp"

namespace silt::attn_res_hip {

using namespace hip;

/// bf16 tensors are seen as their bits. Strides are in elements.
struct Params {
  Global<uint16_t> prefix;
  Global<const uint16_t> delta;  // null: none, and prefix is only read
  Global<const uint16_t> blocks;
  Global<uint16_t> written;            // the slot that takes p, of token 0; null: none
  Global<const uint16_t> norm_weight;  // the weights are not read without blocks
  Global<const uint16_t> qk_weight;
  Global<const uint16_t> output_norm_weight;  // null: the mixture is the output
  Global<uint16_t> output;
  int64_t prefix_stride;
  int64_t delta_stride;
  int64_t block_token_stride;
  int64_t block_slot_stride;
  int64_t output_stride;
  uint32_t t;
  uint32_t d;
  uint32_t n;
  uint32_t waves_per_token;
  uint32_t tokens_per_group;
  float inverse_d;
  float eps;
  float output_norm_eps;
};
static_assert(sizeof(Params) == 8 * 8 + 5 * 8 + 8 * 4);

constexpr uint32_t kMostBlocksHeld = 8;
/// Columns of a lane and of a wave where rows are held in registers: 16 bytes a lane.
constexpr uint32_t kLaneColumns = 8;
constexpr uint32_t kWaveColumns = 64 * kLaneColumns;
constexpr uint32_t kMostThreadsHeld = 1024;
constexpr uint32_t kMostColumnsHeld = kMostThreadsHeld * kLaneColumns;
/// The other way: so many threads a token, and logits of so many sources in local memory.
constexpr uint32_t kThreadsAny = 256;
constexpr uint32_t kMostSourcesAny = 2048;

}  // namespace silt::attn_res_hip
