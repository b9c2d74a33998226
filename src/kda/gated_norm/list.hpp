// The kernel list of rms_norm_gated.
#pragma once

#include "dispatch/kernel.hpp"
#include "kda/gated_norm/problem.hpp"

namespace silt {

using RmsNormGatedKernel = Kernel<RmsNormGatedProblem, RmsNormGatedArgs>;
using RmsNormGatedList = KernelList<RmsNormGatedProblem, RmsNormGatedArgs>;

RmsNormGatedList rms_norm_gated_list();

}  // namespace silt
