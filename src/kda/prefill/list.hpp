// The kernel list of kda_prefill.
#pragma once

#include "dispatch/kernel.hpp"
#include "kda/prefill/problem.hpp"

namespace silt {

using KdaPrefillKernel = Kernel<KdaPrefillProblem, KdaPrefillArgs>;
using KdaPrefillList = KernelList<KdaPrefillProblem, KdaPrefillArgs>;

KdaPrefillList kda_prefill_list();

}  // namespace silt
