// The promise of cuda_sm80_rows: every bf16 sweep and merge on every NVIDIA GPU from sm_80 on. Plain C++.
#pragma once

#include "attn_res/two_phase/list.hpp"

namespace silt::attn_res_two_phase_cuda_sm80_rows {

constexpr int kMostThreads = 512;

/// Columns a thread reads at once: 8 where rows are aligned to 16 bytes, 2 at 4 bytes, else 1.
template <class Problem>
constexpr int columns_at_once(const Problem& problem) {
  if (problem.align >= 16 && problem.d % 8 == 0) return 8;
  return problem.align >= 4 && problem.d % 2 == 0 ? 2 : 1;
}
/// Two accesses a thread and row, up to the most threads: a function of the row alone, so that its bits are too.
constexpr int threads(int64_t d, int columns) {
  const int64_t warps = (d + 64 * columns - 1) / (64 * columns);
  return static_cast<int>(warps * 32 < kMostThreads ? warps * 32 : kMostThreads);
}

/// Sources of a sweep whose sums are made at once. Per source: eight dot products and a sum of squares.
constexpr int kSourcesAtOnce = 4;
constexpr int kValuesPerSource = static_cast<int>(kAttnResMostQueries) + 1;
/// Shared memory of a sweep: the sums of every warp, and a softmax weight per source and query.
constexpr int64_t sweep_bytes(int64_t sources, int block) {
  const int64_t groups = (sources + kSourcesAtOnce - 1) / kSourcesAtOnce;
  return (groups * kSourcesAtOnce * kValuesPerSource * (block / 32) + sources * kAttnResMostQueries) *
         static_cast<int64_t>(sizeof(float));
}
/// 48 KiB is what a block gets without asking; more blocks than that leaves room for are refused.
constexpr int64_t kMostSharedBytes = 48 * 1024;

template <class Problem>
constexpr Reason accepts_rows(const Problem& problem, const DeviceFacts& facts) {
  if (facts.arch_number < 80) return refuse("arch", facts.arch, "sm_80 or newer");
  if (problem.dtype != DType::bf16) return refuse("dtype", to_string(problem.dtype), "bf16");
  if (problem.d > INT32_MAX / 2) return refuse("hidden size", problem.d, "at most 1073741823");
  return accept();
}

constexpr Reason accepts_partials(const AttnResPartialsProblem& problem, const DeviceFacts& facts) {
  const Reason reason = accepts_rows(problem, facts);
  if (!reason.field.empty()) return reason;
  const int block = threads(problem.d, columns_at_once(problem));
  if (problem.n >= kMostSharedBytes || sweep_bytes(problem.n, block) > kMostSharedBytes) {
    return refuse("num_blocks", problem.n, "so few that their sums fit 48 KiB of shared memory");
  }
  return accept();
}
constexpr Reason accepts_merge(const AttnResMergeProblem& problem, const DeviceFacts& facts) {
  return accepts_rows(problem, facts);
}

Status launch_partials(const AttnResPartialsProblem& problem, const AttnResPartialsArgs& args, const Launch& launch);
Status launch_merge(const AttnResMergeProblem& problem, const AttnResMergeArgs& args, const Launch& launch);

}  // namespace silt::attn_res_two_phase_cuda_sm80_rows
