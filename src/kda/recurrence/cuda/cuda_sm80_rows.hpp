// The promise of cuda_sm80_rows: every checked problem with bf16 gates, on an NVIDIA GPU from sm_80 on.
#pragma once

#include "kda/recurrence/cuda/params.hpp"
#include "kda/recurrence/list.hpp"

namespace silt::kda_recurrence_cuda_sm80_rows {

constexpr Reason accepts(const KdaRecurrenceProblem& problem, const DeviceFacts& facts) {
  if (facts.arch_number < 80) return refuse("arch", facts.arch, "sm_80 or newer");
  if (problem.dtype != DType::bf16) return refuse("dtype", to_string(problem.dtype), "bf16");
  if (problem.h > kda_recurrence_cuda::kMaxHeads) return refuse("h", problem.h, "at most 131072");
  const int64_t blocks = problem.n * problem.h * kda_recurrence_cuda::kBlocksPerHead;
  if (blocks >= int64_t{1} << 31) return refuse("2 * n * h", blocks, "less than 2147483648");
  return accept();
}

Status launch(const KdaRecurrenceProblem& problem, const KdaRecurrenceArgs& args, const Launch& launch);

}  // namespace silt::kda_recurrence_cuda_sm80_rows
