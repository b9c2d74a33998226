// The promise of cpu_reference: every checked problem, in fp32, one sequence and head after the other. The work is
// reference.cpp.
#pragma once

#include "kda/recurrence/list.hpp"

namespace silt::kda_recurrence_cpu_reference {

constexpr Reason accepts(const KdaRecurrenceProblem&, const DeviceFacts&) { return accept(); }
Status launch(const KdaRecurrenceProblem& problem, const KdaRecurrenceArgs& args, const Launch& launch);

}  // namespace silt::kda_recurrence_cpu_reference
