// What the kernels of this room take: the checked call as plain pointers, strides and numbers.
#pragma once

#include <cstdint>

namespace silt::kda_decode_cuda {

/// Offsets inside a slot (H * 128 * 128 of state, 9 * 128 * H of history) are 32-bit.
constexpr int64_t kMaxHeads = 1 << 17;

/// bf16 tensors are seen as their bits. Strides are in elements.
struct Params {
  const uint16_t* x = nullptr;
  const float* conv_weight = nullptr;
  const float* conv_bias = nullptr;  // null where absent
  uint16_t* history = nullptr;
  const uint16_t* raw_gate = nullptr;
  const uint16_t* raw_beta = nullptr;
  const float* a_log = nullptr;
  const float* dt_bias = nullptr;
  const int32_t* indices = nullptr;
  void* state = nullptr;
  const uint16_t* output_gate = nullptr;  // null where the output norm is absent
  const float* norm_weight = nullptr;
  uint16_t* output = nullptr;
  int64_t x_stride = 0;
  int64_t gate_stride = 0;
  int64_t beta_stride = 0;
  int64_t output_gate_stride = 0;
  int64_t output_stride = 0;
  int64_t history_slot_stride = 0;
  int64_t state_slot_stride = 0;
  int32_t heads = 0;
  uint32_t heads_reciprocal = 0;  // ceil(2^32 / heads), for items below 2^32 / heads; unused for one head
  int32_t slots = 0;
  int32_t null_slot = 0;
  float lower_bound = 0;
  float norm_eps = 0;
  bool channel_major = false;  // history as [3P, 3] ("DS"), else [3, 3P] ("SD")
  bool safe_gate = true;
  bool prefetch = false;     // what is read behind the dependency wait to L2 before it
  bool evict_first = false;  // cache hint of bulk copies; register schedules have theirs at compile time
};

/// ceil(2^32 / heads): the multiply-high by it divides exactly below 2^32 / heads.
constexpr uint32_t reciprocal_of(int64_t heads) {
  return heads == 1 ? 0 : static_cast<uint32_t>(((int64_t{1} << 32) + heads - 1) / heads);
}

}  // namespace silt::kda_decode_cuda
