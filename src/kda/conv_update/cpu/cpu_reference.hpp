// The promise of cpu_reference: every checked problem, in fp32, one sequence and channel after the other. The work is
// reference.cpp.
#pragma once

#include "kda/conv_update/list.hpp"

namespace silt::causal_conv1d_update_cpu_reference {

constexpr Reason accepts(const CausalConv1dUpdateProblem&, const DeviceFacts&) { return accept(); }
Status launch(const CausalConv1dUpdateProblem& problem, const CausalConv1dUpdateArgs& args, const Launch& launch);

}  // namespace silt::causal_conv1d_update_cpu_reference
