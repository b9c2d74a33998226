// The promise of cpu_plain_rows: every checked problem on any CPU.
#pragma once

#include "kda/prefill/list.hpp"

namespace silt::kda_prefill_cpu_plain_rows {

constexpr Reason accepts(const KdaPrefillProblem&, const DeviceFacts&) { return accept(); }
Status launch(const KdaPrefillProblem& problem, const KdaPrefillArgs& args, const Launch& launch);

}  // namespace silt::kda_prefill_cpu_plain_rows
