// The promise of cuda_sm90_tensor: a sweep by matrix units, one token at a time per pair of blocks. Plain C++: the
// choice for a GPU can be explained where there is none.
#pragma once

#include "attn_res/two_phase/list.hpp"

namespace silt::attn_res_partials_cuda_sm90_tensor {

constexpr int kMostSources = 8;  ///< an 8 x 8 tile of a matrix unit is sources by columns
/// Two blocks share a token, each with half of its columns: the weights of all columns (4 bytes a query and column) do
/// not fit the shared memory of one SM, and pairs of SMs are what a GPU has whole (clusters of four leave 12 of 132).
constexpr int kBlocks = 2;
/// 14 warps: 7168 columns are four pieces of 64 a warp and block. 128 registers a thread.
constexpr int kWarps = 14;
constexpr int kThreads = 32 * kWarps;
/// Columns that a warp takes at once: two transposed 8 x 32 loads, and whole 128-byte lines of bf16 written.
constexpr int kPieceColumns = 64;
constexpr int kColumnStep = kBlocks * kPieceColumns;
/// Beyond this only one token's rows fit beside the weights: nothing would be under way while it is computed.
constexpr int kMostColumns = 7168;

constexpr int kMostPieces = (kMostColumns / kBlocks / kPieceColumns + kWarps - 1) / kWarps;  ///< of a warp

/// Tokens of which rows are under way or in use; more are of no use.
constexpr int kMostStages = 8;
/// What a block may ask for on sm_90 and sm_100 alike.
constexpr int64_t kSharedBytes = 227 * 1024;

/// Half a row in shared memory: 16 bytes more than it has, so that eight rows lie in different banks.
constexpr int64_t pitch(int64_t d) { return d / kBlocks * 2 + 16; }
/// Weights of a block's columns: 16 bytes a lane and 16 columns (eight queries, high and low part).
constexpr int64_t weight_bytes(int64_t d) { return d / kBlocks / 16 * 32 * 16; }
/// Sums of half the warps (the others' are added before they are stored), the peer's twice, barriers.
constexpr int kValues = 64 + 8;  ///< eight queries by eight sources, and eight sums of squares
constexpr int64_t kSumBytes = (kWarps / 2 + 2) * kValues * static_cast<int64_t>(sizeof(float));
constexpr int64_t kBarrierBytes = (kMostStages + 2) * static_cast<int64_t>(sizeof(uint64_t));
/// Sources that are not there are read from one row of zeros.
constexpr int64_t row_count(int64_t n, int stages) { return stages * n + (n < kMostSources ? 1 : 0); }

constexpr int64_t shared_bytes(int64_t n, int64_t d, int stages) {
  return weight_bytes(d) + row_count(n, stages) * pitch(d) + kSumBytes + kBarrierBytes;
}
constexpr int stages(int64_t n, int64_t d) {
  int most = kMostStages;
  while (most > 1 && shared_bytes(n, d, most) > kSharedBytes) --most;
  return most;
}
static_assert(stages(kMostSources, kMostColumns) == 2 && shared_bytes(kMostSources, kMostColumns, 2) <= kSharedBytes);

constexpr Reason accepts(const AttnResPartialsProblem& problem, const DeviceFacts& facts) {
  if (facts.arch_number != 90 && facts.arch_number != 100 && facts.arch_number != 103) {
    return refuse("arch", facts.arch, "sm_90, sm_100 or sm_103");
  }
  if (problem.dtype != DType::bf16) return refuse("dtype", to_string(problem.dtype), "bf16");
  if (problem.n > kMostSources) return refuse("num_blocks", problem.n, "at most 8");
  if (problem.d % kColumnStep != 0) return refuse("hidden size", problem.d, "a multiple of 128");
  if (problem.d > kMostColumns) return refuse("hidden size", problem.d, "at most 7168");
  if (problem.align < 16) return refuse("alignment", problem.align, "16 bytes of every row and weight");
  if (facts.shared_bytes_per_block < kSharedBytes) {
    return refuse("shared memory", facts.shared_bytes_per_block, "227 KiB a block");
  }
  return accept();
}

/// Pairs of blocks: one per pair of SMs, fewer where there are fewer tokens.
constexpr int64_t pairs(const AttnResPartialsProblem& problem, const DeviceFacts& facts) {
  const int64_t most = facts.processors < kBlocks ? 1 : facts.processors / kBlocks;
  return problem.t < most ? problem.t : most;
}

/// "66 pairs of 448 threads, 2 tokens of 8 half rows under way"
std::string describe(const AttnResPartialsProblem& problem, const DeviceFacts& facts);

Status launch(const AttnResPartialsProblem& problem, const AttnResPartialsArgs& args, const Launch& launch);

}  // namespace silt::attn_res_partials_cuda_sm90_tensor
