// What the AMD kernels of this room take: the checked call as plain pointers, strides and numbers. It is the kernel's
// argument block byte for byte, on host and device; members of 8 bytes come first, so that it has no gaps.
#pragma once

#include "gpu/hip/types.hpp"

namespace silt::kda_recurrence_hip {

using namespace hip;

/// bf16 tensors are seen as their bits. Strides are in elements.
struct Params {
  Global<const void> q;
  Global<const void> k;
  Global<const void> v;
  Global<const uint16_t> raw_gate;
  Global<const uint16_t> raw_beta;
  Uniform<float> a_log;
  Global<const float> dt_bias;
  Uniform<int32_t> offsets;   // null where absent: one token each
  Uniform<int32_t> indices;   // [sequences], or the table [sequences, columns]
  Uniform<int32_t> accepted;  // null without a table
  Global<void> state;
  Global<void> output;
  int64_t q_stride;
  int64_t k_stride;
  int64_t v_stride;
  int64_t gate_stride;
  int64_t beta_stride;
  int64_t output_stride;
  int64_t state_slot_stride;
  int64_t columns;  // of the table
  uint32_t heads;
  uint32_t heads_reciprocal;  // floor((2^32 - 1) / heads)
  int32_t slots;
  int32_t null_slot;
  float lower_bound;  // not read with the softplus gate
  uint32_t softplus_gate;
  uint32_t output_is_f32;
  uint32_t unused;  // the block is a multiple of 8 bytes
};
static_assert(sizeof(Params) == 12 * 8 + 8 * 8 + 8 * 4);

}  // namespace silt::kda_recurrence_hip
