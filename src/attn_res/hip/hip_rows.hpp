// The promise of hip_gfx942_rows and hip_gfx950_rows: every checked bf16 problem on a device of exactly that
// architecture, since code for one does not run on the other.
#pragma once

#include <algorithm>
#include <string>

#include "attn_res/hip/params.hpp"
#include "attn_res/list.hpp"
#include "gpu/hip/launch.hpp"

namespace silt::attn_res_hip_rows {

/// Columns are 32-bit numbers, and so are a lane's byte offsets inside a row.
constexpr int64_t kMostColumns = 1 << 30;

/// Lanes can move 16 bytes of every row.
constexpr bool whole_vectors(const AttnResProblem& problem) {
  return problem.align >= 16 && problem.d % attn_res_hip::kLaneColumns == 0;
}
/// All rows of a token fit the registers of one workgroup.
constexpr bool holds_rows(const AttnResProblem& problem) {
  return whole_vectors(problem) && problem.n <= attn_res_hip::kMostBlocksHeld &&
         problem.d <= attn_res_hip::kMostColumnsHeld;
}

struct Plan {
  bool held = false;
  int waves_per_token = 4;
  int tokens_per_group = 1;
};
/// Held: a wave per 512 columns. Tokens of up to two waves share a workgroup of four, unless the device then had idle
/// processors; a token's sums are the same either way.
constexpr Plan choose_plan(const AttnResProblem& problem, int64_t processors) {
  Plan plan;
  plan.held = holds_rows(problem);
  if (!plan.held) return plan;
  plan.waves_per_token = static_cast<int>((problem.d + attn_res_hip::kWaveColumns - 1) / attn_res_hip::kWaveColumns);
  const int packed = std::max(4 / plan.waves_per_token, 1);
  if (problem.t >= processors * packed) plan.tokens_per_group = packed;
  return plan;
}
constexpr int threads(const Plan& plan) {
  return plan.held ? 64 * plan.waves_per_token * plan.tokens_per_group : static_cast<int>(attn_res_hip::kThreadsAny);
}

constexpr Reason accepts(const AttnResProblem& problem, const DeviceFacts& facts, int32_t arch, std::string_view isa) {
  if (facts.arch_number != arch) return refuse("arch", facts.arch, isa);
  if (problem.dtype != DType::bf16) return refuse("dtype", to_string(problem.dtype), "bf16");
  if (problem.d > kMostColumns) return refuse("hidden size", problem.d, "at most 1073741824");
  if (problem.n >= attn_res_hip::kMostSourcesAny) return refuse("num_blocks", problem.n, "at most 2047");
  if (problem.t > hip::most_groups(attn_res_hip::kMostThreadsHeld)) {
    return refuse("tokens", problem.t, "at most 4194303");
  }
  return accept();
}
constexpr Reason accepts_gfx942(const AttnResProblem& problem, const DeviceFacts& facts) {
  return accepts(problem, facts, 0x942, "gfx942");
}
constexpr Reason accepts_gfx950(const AttnResProblem& problem, const DeviceFacts& facts) {
  return accepts(problem, facts, 0x950, "gfx950");
}

/// Launches the kernel of a plan; the tests give plans that other sizes of device would take.
Status launch_plan(std::string_view kernel, const Plan& plan, const AttnResProblem& problem, const AttnResArgs& args,
                   const Launch& launch);
std::string plan(const AttnResProblem& problem, const DeviceFacts& facts);
Status launch_gfx942(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch);
Status launch_gfx950(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch);

}  // namespace silt::attn_res_hip_rows
