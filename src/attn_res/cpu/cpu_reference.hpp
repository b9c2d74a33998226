// The promise of cpu_reference: every checked problem, in fp32, one row after the other. The work is reference.cpp.
#pragma once

#include "attn_res/list.hpp"

namespace silt::attn_res_cpu_reference {

constexpr Reason accepts(const AttnResProblem&, const DeviceFacts&) { return accept(); }
Status launch(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch);

}  // namespace silt::attn_res_cpu_reference
