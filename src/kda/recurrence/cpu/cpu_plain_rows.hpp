// The promise of cpu_plain_rows: every checked problem on any CPU.
#pragma once

#include "kda/recurrence/list.hpp"

namespace silt::kda_recurrence_cpu_plain_rows {

constexpr Reason accepts(const KdaRecurrenceProblem&, const DeviceFacts&) { return accept(); }
Status launch(const KdaRecurrenceProblem& problem, const KdaRecurrenceArgs& args, const Launch& launch);

}  // namespace silt::kda_recurrence_cpu_plain_rows
