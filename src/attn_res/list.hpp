// The kernel list of attn_res.
#pragma once

#include "attn_res/problem.hpp"
#include "dispatch/kernel.hpp"

namespace silt {

using AttnResKernel = Kernel<AttnResProblem, AttnResArgs>;
using AttnResList = KernelList<AttnResProblem, AttnResArgs>;

AttnResList attn_res_list();

}  // namespace silt
