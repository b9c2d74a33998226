// The kernel list of causal_conv1d_update.
#pragma once

#include "dispatch/kernel.hpp"
#include "kda/conv_update/problem.hpp"

namespace silt {

using CausalConv1dUpdateKernel = Kernel<CausalConv1dUpdateProblem, CausalConv1dUpdateArgs>;
using CausalConv1dUpdateList = KernelList<CausalConv1dUpdateProblem, CausalConv1dUpdateArgs>;

CausalConv1dUpdateList causal_conv1d_update_list();

}  // namespace silt
