// The promise of cpu_reference: every checked problem, in fp32, one row after the other. The work is reference.cpp.
#pragma once

#include "attn_res/two_phase/list.hpp"

namespace silt::attn_res_two_phase_cpu_reference {

constexpr Reason accepts_partials(const AttnResPartialsProblem&, const DeviceFacts&) { return accept(); }
Status launch_partials(const AttnResPartialsProblem& problem, const AttnResPartialsArgs& args, const Launch& launch);

constexpr Reason accepts_merge(const AttnResMergeProblem&, const DeviceFacts&) { return accept(); }
Status launch_merge(const AttnResMergeProblem& problem, const AttnResMergeArgs& args, const Launch& launch);

}  // namespace silt::attn_res_two_phase_cpu_reference
