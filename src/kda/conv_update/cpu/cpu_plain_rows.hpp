// The promise of cpu_plain_rows: every checked problem on any CPU.
#pragma once

#include "kda/conv_update/list.hpp"

namespace silt::causal_conv1d_update_cpu_plain_rows {

constexpr Reason accepts(const CausalConv1dUpdateProblem&, const DeviceFacts&) { return accept(); }
Status launch(const CausalConv1dUpdateProblem& problem, const CausalConv1dUpdateArgs& args, const Launch& launch);

}  // namespace silt::causal_conv1d_update_cpu_plain_rows
