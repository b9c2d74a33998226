// The promise of cpu_reference: every checked problem, in fp32, one sequence and head after the other. The work is
// reference.cpp.
#pragma once

#include "kda/prefill/list.hpp"

namespace silt::kda_prefill_cpu_reference {

constexpr Reason accepts(const KdaPrefillProblem&, const DeviceFacts&) { return accept(); }
Status launch(const KdaPrefillProblem& problem, const KdaPrefillArgs& args, const Launch& launch);

}  // namespace silt::kda_prefill_cpu_reference
