// The kernel list of kda_recurrence.
#pragma once

#include "dispatch/kernel.hpp"
#include "kda/recurrence/problem.hpp"

namespace silt {

using KdaRecurrenceKernel = Kernel<KdaRecurrenceProblem, KdaRecurrenceArgs>;
using KdaRecurrenceList = KernelList<KdaRecurrenceProblem, KdaRecurrenceArgs>;

KdaRecurrenceList kda_recurrence_list();

}  // namespace silt
