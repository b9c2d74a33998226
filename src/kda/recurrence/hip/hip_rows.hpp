// The promise of hip_gfx942_rows and hip_gfx950_rows: every checked problem with bf16 gates on a device of exactly that
// architecture, since code for one does not run on the other.
#pragma once

#include <string>

#include "gpu/hip/launch.hpp"
#include "kda/recurrence/list.hpp"

namespace silt::kda_recurrence_hip_rows {

constexpr int kThreads = 256;
/// Offsets inside a slot (H * 128 * 128) fit 32 bits.
constexpr int64_t kMaxHeads = 1 << 17;

/// 16 bytes of state, and two neighbours of q, k, v, raw_gate and dt_bias, are one access.
constexpr bool aligned(const KdaRecurrenceProblem& problem) { return problem.align >= 16; }

constexpr Reason accepts(const KdaRecurrenceProblem& problem, const DeviceFacts& facts, int32_t arch,
                         std::string_view isa) {
  if (facts.arch_number != arch) return refuse("arch", facts.arch, isa);
  if (problem.dtype != DType::bf16) return refuse("dtype", to_string(problem.dtype), "bf16");
  if (problem.h > kMaxHeads) return refuse("h", problem.h, "at most 131072");
  if (problem.n * problem.h > hip::most_groups(kThreads))
    return refuse("n * h", problem.n * problem.h, "at most 16777215");
  return accept();
}
constexpr Reason accepts_gfx942(const KdaRecurrenceProblem& problem, const DeviceFacts& facts) {
  return accepts(problem, facts, 0x942, "gfx942");
}
constexpr Reason accepts_gfx950(const KdaRecurrenceProblem& problem, const DeviceFacts& facts) {
  return accepts(problem, facts, 0x950, "gfx950");
}

std::string plan(const KdaRecurrenceProblem& problem, const DeviceFacts& facts);
Status launch_gfx942(const KdaRecurrenceProblem& problem, const KdaRecurrenceArgs& args, const Launch& launch);
Status launch_gfx950(const KdaRecurrenceProblem& problem, const KdaRecurrenceArgs& args, const Launch& launch);

}  // namespace silt::kda_recurrence_hip_rows
