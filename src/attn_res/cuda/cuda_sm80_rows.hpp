// The promise of cuda_sm80_rows: every bf16 problem on every NVIDIA GPU from sm_80 on.
#pragma once

#include "attn_res/list.hpp"

namespace silt::attn_res_cuda_sm80_rows {

constexpr int kMostThreads = 512;
/// Columns a thread reads at once: 8 where rows are aligned to 16 bytes, 2 at 4 bytes, else 1.
constexpr int columns_at_once(const AttnResProblem& problem) {
  if (problem.align >= 16 && problem.d % 8 == 0) return 8;
  return problem.align >= 4 && problem.d % 2 == 0 ? 2 : 1;
}
/// Two accesses a thread and row, up to the most threads: a function of the row alone, so that its bits are too.
constexpr int threads(int64_t d, int columns) {
  const int64_t warps = (d + 64 * columns - 1) / (64 * columns);
  return static_cast<int>(warps * 32 < kMostThreads ? warps * 32 : kMostThreads);
}

constexpr int64_t round_up_16(int64_t bytes) { return (bytes + 15) / 16 * 16; }
/// Shared memory of the sums: two statistics per source and warp, a weight per source, a norm sum per warp.
constexpr int64_t sum_bytes(int64_t sources, int block) {
  return round_up_16((sources * (2 * (block / 32) + 1) + block / 32) * static_cast<int64_t>(sizeof(float)));
}
/// Shared memory of the rows of a token, kept for the second pass.
constexpr int64_t row_bytes(int64_t sources, int64_t d) { return sources * d * 2; }

/// Rows are held in registers, as in form one of cuda_sm90_direct, where they fit there: up to 8 blocks and 7168
/// columns in whole leaves of 256.
constexpr bool holds_rows(const AttnResProblem& problem) {
  return problem.align >= 16 && problem.n <= 8 && problem.d % 256 == 0 && problem.d <= 7168 && problem.t <= INT32_MAX;
}

/// 48 KiB is what a block gets without asking; more blocks than that leaves room for are refused.
constexpr int64_t kMostSumBytes = 48 * 1024;

constexpr Reason accepts(const AttnResProblem& problem, const DeviceFacts& facts) {
  if (facts.arch_number < 80) return refuse("arch", facts.arch, "sm_80 or newer");
  if (problem.dtype != DType::bf16) return refuse("dtype", to_string(problem.dtype), "bf16");
  if (problem.d > INT32_MAX / 2) return refuse("hidden size", problem.d, "at most 1073741823");
  const int block = threads(problem.d, columns_at_once(problem));
  if (problem.n >= kMostSumBytes || sum_bytes(problem.n + 1, block) > kMostSumBytes) {
    return refuse("num_blocks", problem.n, "so few that their sums fit 48 KiB of shared memory");
  }
  return accept();
}

Status launch(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch);

}  // namespace silt::attn_res_cuda_sm80_rows
