// Compiled forms of cuda_sm90_heads and their shared memory: what host and device code agree on.
#pragma once

#include <cstdint>

namespace silt::kda_decode_cuda_sm90_heads {

/// One compiled form of the kernel.
struct Form {
  int threads = 0;        ///< of a block
  int cluster = 0;        ///< blocks that share a (row, head), each with 128 / cluster rows of the state
  bool bulk = false;      ///< state by bulk copies through shared memory, else in registers
  bool evict = false;     ///< register form: evict-first loads and stores
  int min_blocks = 0;     ///< per SM, what registers must allow
  int rows_per_pass = 0;  ///< rows of a half-warp whose dots are reduced together: more need registers, fewer shuffles
};

constexpr int64_t shared_bytes(const Form& form, int64_t state_element) {
  constexpr int kHeadDim = 128;
  const int rows = kHeadDim / form.cluster;
  const int vectors = 3 * kHeadDim * 4;              // q, k, decay
  const int per_row = 2 * rows * 4 + kHeadDim * 4;   // v, output factors; all outputs
  const int barriers = 8 * (2 + form.threads / 32);  // two of the cluster, one per warp
  const int64_t head = (vectors + per_row + barriers + 127) / 128 * 128;
  return head + (form.bulk ? rows * kHeadDim * state_element : 0);
}

/// `c` is the cluster size, the number the threads of a block. What limits the blocks per SM (64 Ki registers, 228 KiB)
/// stands beside each; docs/ladder/kda_decode_cuda.md has the measurements that chose them.
enum class FormId : int32_t {
  c4_256,
  c2_256,
  c4_128,
  c4_128_six,
  c1_256,
  c1_256_keep,
  c1_128,
  c1_128_keep,
  bulk_128,
  bulk_128_half,
};
inline constexpr Form kForms[] = {
    {256, 4, false, true, 4, 2},   // 64 registers
    {256, 2, false, true, 3, 4},   // 80 registers
    {128, 4, false, true, 5, 4},   // 96 registers
    {128, 4, false, true, 6, 4},   // 80 registers
    {256, 1, false, true, 2, 4},   // 128 registers
    {256, 1, false, false, 2, 4},  // the same, no hint
    {128, 1, false, true, 3, 4},   // bf16 state: 168 registers
    {128, 1, false, false, 3, 4},  // the same, no hint
    {128, 1, true, false, 3, 4},   // 67 KiB
    {128, 1, true, false, 6, 4},   // bf16 state: 35 KiB
};
inline constexpr int kFormCount = sizeof(kForms) / sizeof(kForms[0]);
constexpr const Form& form_of(FormId id) { return kForms[static_cast<int>(id)]; }

}  // namespace silt::kda_decode_cuda_sm90_heads
