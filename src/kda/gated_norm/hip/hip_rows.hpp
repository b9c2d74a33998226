// The promise of hip_gfx942_rows and hip_gfx950_rows: every checked problem with a bf16 gate on a device of exactly
// that architecture, since code for one does not run on the other.
#pragma once

#include "gpu/hip/launch.hpp"
#include "kda/gated_norm/hip/params.hpp"
#include "kda/gated_norm/list.hpp"

namespace silt::rms_norm_gated_hip_rows {

/// Eight neighbours are one access (two where fp32) in every tensor.
constexpr bool aligned(const RmsNormGatedProblem& problem) { return problem.align >= 16; }

constexpr Reason accepts(const RmsNormGatedProblem& problem, const DeviceFacts& facts, int32_t arch,
                         std::string_view isa) {
  if (facts.arch_number != arch) return refuse("arch", facts.arch, isa);
  if (problem.gate != DType::bf16) return refuse("gate", to_string(problem.gate), "bf16");
  const int64_t items = problem.t * problem.h;
  if (items > hip::most_groups(rms_norm_gated_hip::kThreads) * rms_norm_gated_hip::kItemsPerGroup) {
    return refuse("t * h", items, "at most 268435440");
  }
  return accept();
}
constexpr Reason accepts_gfx942(const RmsNormGatedProblem& problem, const DeviceFacts& facts) {
  return accepts(problem, facts, 0x942, "gfx942");
}
constexpr Reason accepts_gfx950(const RmsNormGatedProblem& problem, const DeviceFacts& facts) {
  return accepts(problem, facts, 0x950, "gfx950");
}

Status launch_gfx942(const RmsNormGatedProblem& problem, const RmsNormGatedArgs& args, const Launch& launch);
Status launch_gfx950(const RmsNormGatedProblem& problem, const RmsNormGatedArgs& args, const Launch& launch);

}  // namespace silt::rms_norm_gated_hip_rows
