// What the AMD kernels of this room take: the checked call as plain pointers, strides and numbers. It is the kernel's
// argument block byte for byte, on host and device; members of 8 bytes come first, so that it has no gaps.
#pragma once

#include "gpu/hip/types.hpp"

namespace silt::kda_decode_hip {

using namespace hip;

/// bf16 tensors are seen as their bits. Strides are in elements.
struct Params {
  Global<const uint16_t> x;
  Global<const float> conv_weight;
  Global<const float> conv_bias;  // null where absent
  Global<uint16_t> history;
  Global<const uint16_t> raw_gate;
  Global<const uint16_t> raw_beta;
  Uniform<float> a_log;
  Global<const float> dt_bias;
  Uniform<int32_t> indices;
  Global<void> state;
  Global<const uint16_t> output_gate;  // null where the output norm is absent
  Global<const float> norm_weight;
  Global<uint16_t> output;
  int64_t x_stride;
  int64_t gate_stride;
  int64_t beta_stride;
  int64_t output_gate_stride;
  int64_t output_stride;
  int64_t history_slot_stride;
  int64_t state_slot_stride;
  uint32_t heads;
  uint32_t heads_reciprocal;  // floor((2^32 - 1) / heads)
  int32_t slots;
  int32_t null_slot;
  float lower_bound;  // not read with the softplus gate
  float norm_eps;
  uint32_t channel_major;  // 1: history as [3P, 3] ("DS"), 0: [3, 3P] ("SD")
  uint32_t softplus_gate;
};
static_assert(sizeof(Params) == 13 * 8 + 7 * 8 + 8 * 4);

}  // namespace silt::kda_decode_hip
