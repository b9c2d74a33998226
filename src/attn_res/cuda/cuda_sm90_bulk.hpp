// The promise of cuda_sm90_bulk: persistent blocks, rows by bulk copy through a ring of shared memory.
#pragma once

#include "attn_res/list.hpp"

namespace silt::attn_res_cuda_sm90_bulk {

constexpr int kMostSources = 8;
/// A consumer thread has two chunks of 8 columns, apart by the width of the block: 448 threads for 7168 columns.
constexpr int kChunkColumns = 8;
constexpr int kChunks = 2;
constexpr int kMostConsumers = 512;
constexpr int kMostColumns = kMostConsumers * kChunks * kChunkColumns;
constexpr int kMostSlots = 32;  ///< rows of the ring; more are never under way at once

constexpr int consumers(int64_t d) {
  const auto warps = static_cast<int>((d + 32 * kChunks * kChunkColumns - 1) / (32 * kChunks * kChunkColumns));
  return 32 * warps;
}
/// One block per SM with the whole shared memory. With at most one bank row two blocks, whose loads and arithmetic
/// overlap; from two rows on the 56 registers that two blocks leave a thread spill.
constexpr int blocks_per_processor(int64_t n) { return n <= 1 ? 2 : 1; }

struct Plan {
  int slots = 0;  ///< rows of the ring; a token needs n + 2 at once
  int blocks = 0;
  int64_t shared_bytes = 0;
};

constexpr Plan choose_plan(const AttnResProblem& problem, const DeviceFacts& facts) {
  constexpr int64_t kStatic = 4096;  // barriers and sums, and what the driver keeps of every block
  const int blocks = blocks_per_processor(problem.n);
  const int64_t row = problem.d * 2;
  int64_t room = facts.shared_bytes_per_processor / blocks - kStatic;
  if (room > facts.shared_bytes_per_block - kStatic) room = facts.shared_bytes_per_block - kStatic;
  const int64_t slots = room / row < kMostSlots ? room / row : kMostSlots;
  const int64_t most = static_cast<int64_t>(facts.processors) * blocks;
  return {static_cast<int>(slots), static_cast<int>(problem.t < most ? problem.t : most), slots * row};
}

constexpr Reason accepts(const AttnResProblem& problem, const DeviceFacts& facts) {
  if (facts.arch_number != 90 && facts.arch_number != 100 && facts.arch_number != 103) {
    return refuse("arch", facts.arch, "sm_90, sm_100 or sm_103");
  }
  if (problem.dtype != DType::bf16) return refuse("dtype", to_string(problem.dtype), "bf16");
  if (problem.n > kMostSources) return refuse("num_blocks", problem.n, "at most 8");
  if (problem.d % kChunkColumns != 0) return refuse("hidden size", problem.d, "a multiple of 8");
  if (problem.d > kMostColumns) return refuse("hidden size", problem.d, "at most 8192");
  if (problem.align < 16) return refuse("alignment", problem.align, "16 bytes of every row and weight");
  if (choose_plan(problem, facts).slots < problem.n + 2) {
    return refuse("shared memory", facts.shared_bytes_per_block, "room for n + 2 rows");
  }
  return accept();
}

/// "132 blocks of 448 + 32 threads, 15 rows in flight"
std::string describe(const AttnResProblem& problem, const DeviceFacts& facts);

Status launch(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch);

}  // namespace silt::attn_res_cuda_sm90_bulk
