// The promise of hip_gfx942_channels and hip_gfx950_channels: every checked bf16 problem on a device of exactly that
// architecture, since code for one does not run on the other.
#pragma once

#include "gpu/hip/launch.hpp"
#include "kda/conv_update/hip/params.hpp"
#include "kda/conv_update/list.hpp"

namespace silt::causal_conv1d_update_hip_channels {

constexpr int64_t groups_per_sequence(const CausalConv1dUpdateProblem& problem) {
  return (problem.c + causal_conv1d_update_hip::kThreads - 1) / causal_conv1d_update_hip::kThreads;
}

constexpr Reason accepts(const CausalConv1dUpdateProblem& problem, const DeviceFacts& facts, int32_t arch,
                         std::string_view isa) {
  if (facts.arch_number != arch) return refuse("arch", facts.arch, isa);
  if (problem.dtype != DType::bf16) return refuse("dtype", to_string(problem.dtype), "bf16");
  // Byte offsets of a channel's six bytes of history fit 32 bits.
  if (problem.c >= int64_t{1} << 29) return refuse("c", problem.c, "less than 536870912");
  const int64_t groups = problem.b * groups_per_sequence(problem);
  if (groups > hip::most_groups(causal_conv1d_update_hip::kThreads)) {
    return refuse("b * ceil(c / 256)", groups, "at most 16777215");
  }
  return accept();
}
constexpr Reason accepts_gfx942(const CausalConv1dUpdateProblem& problem, const DeviceFacts& facts) {
  return accepts(problem, facts, 0x942, "gfx942");
}
constexpr Reason accepts_gfx950(const CausalConv1dUpdateProblem& problem, const DeviceFacts& facts) {
  return accepts(problem, facts, 0x950, "gfx950");
}

Status launch_gfx942(const CausalConv1dUpdateProblem& problem, const CausalConv1dUpdateArgs& args,
                     const Launch& launch);
Status launch_gfx950(const CausalConv1dUpdateProblem& problem, const CausalConv1dUpdateArgs& args,
                     const Launch& launch);

}  // namespace silt::causal_conv1d_update_hip_channels
