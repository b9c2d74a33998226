// The kernel lists of attn_res_partials and attn_res_merge.
#pragma once

#include "attn_res/two_phase/problem.hpp"
#include "dispatch/kernel.hpp"

namespace silt {

using AttnResPartialsKernel = Kernel<AttnResPartialsProblem, AttnResPartialsArgs>;
using AttnResPartialsLaunch = Status (*)(const AttnResPartialsProblem&, const AttnResPartialsArgs&, const Launch&);
using AttnResPartialsList = KernelList<AttnResPartialsProblem, AttnResPartialsArgs>;

using AttnResMergeKernel = Kernel<AttnResMergeProblem, AttnResMergeArgs>;
using AttnResMergeLaunch = Status (*)(const AttnResMergeProblem&, const AttnResMergeArgs&, const Launch&);
using AttnResMergeList = KernelList<AttnResMergeProblem, AttnResMergeArgs>;

AttnResPartialsList attn_res_partials_list();
AttnResMergeList attn_res_merge_list();

}  // namespace silt
