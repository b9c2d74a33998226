// What the CUDA kernel of this room takes.
#pragma once

#include <cstdint>

namespace silt::kda_recurrence_cuda {

/// Offsets inside a slot of state (H * 128 * 128) are 32-bit.
constexpr int64_t kMaxHeads = 1 << 17;

/// bf16 tensors are seen as their bits. Strides are in elements.
struct Params {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  const uint16_t* raw_gate = nullptr;
  const uint16_t* raw_beta = nullptr;
  const float* a_log = nullptr;
  const float* dt_bias = nullptr;
  const int32_t* offsets = nullptr;   // null where absent: one token each
  const int32_t* indices = nullptr;   // [sequences], or the table [sequences, columns]
  const int32_t* accepted = nullptr;  // null without a table
  void* state = nullptr;
  void* output = nullptr;
  int64_t q_stride = 0;
  int64_t k_stride = 0;
  int64_t v_stride = 0;
  int64_t gate_stride = 0;
  int64_t beta_stride = 0;
  int64_t output_stride = 0;
  int64_t state_slot_stride = 0;
  int64_t columns = 0;  // of the table
  int32_t heads = 0;
  int32_t slots = 0;
  int32_t null_slot = 0;
  float lower_bound = 0;
  bool safe_gate = true;
  bool output_is_f32 = false;
};

constexpr int kThreads = 128;
constexpr int kBlocksPerHead = 2;  // each has 64 of the 128 rows

using Kernel = void (*)(Params);
/// `aligned`: 16 bytes of state, and four neighbours of q, k, v, raw_gate and dt_bias, are one access.
Kernel sm80_rows_kernel(int state_bytes, bool qkv_is_f32, bool aligned);

}  // namespace silt::kda_recurrence_cuda
