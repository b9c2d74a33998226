// The promise of hip_gfx942_rows and hip_gfx950_rows: every checked problem with bf16 gates on a device of exactly that
// architecture, since code for one does not run on the other.
#pragma once

#include <string>

#include "kda/recurrence/list.hpp"
#include "kda/shared/hip/accepts.hpp"

namespace silt::kda_recurrence_hip_rows {

/// 16 bytes of state, and two neighbours of q, k, v, raw_gate and dt_bias, are one access.
constexpr bool aligned(const KdaRecurrenceProblem& problem) { return problem.align >= 16; }

constexpr Reason accepts_gfx942(const KdaRecurrenceProblem& problem, const DeviceFacts& facts) {
  return kda_hip::accepts_heads(facts, 0x942, "gfx942", problem.dtype, problem.h, "n * h", problem.n * problem.h);
}
constexpr Reason accepts_gfx950(const KdaRecurrenceProblem& problem, const DeviceFacts& facts) {
  return kda_hip::accepts_heads(facts, 0x950, "gfx950", problem.dtype, problem.h, "n * h", problem.n * problem.h);
}

std::string plan(const KdaRecurrenceProblem& problem, const DeviceFacts& facts);
Status launch_gfx942(const KdaRecurrenceProblem& problem, const KdaRecurrenceArgs& args, const Launch& launch);
Status launch_gfx950(const KdaRecurrenceProblem& problem, const KdaRecurrenceArgs& args, const Launch& launch);

}  // namespace silt::kda_recurrence_hip_rows
