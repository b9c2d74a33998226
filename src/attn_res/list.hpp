// The kernel list of attn_res.
#pragma once

#include "attn_res/problem.hpp"
#include "dispatch/kernel.hpp"

namespace silt {

using AttnResKernel = Kernel<AttnResProblem, AttnResArgs>;
using AttnResLaunch = Status (*)(const AttnResProblem&, const AttnResArgs&, const Launch&);
using AttnResList = KernelList<AttnResProblem, AttnResArgs>;

AttnResList attn_res_list();

}  // namespace silt
