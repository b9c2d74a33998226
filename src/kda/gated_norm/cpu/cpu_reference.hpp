// The promise of cpu_reference: every checked problem, in fp32, one row and head after the other. The work is
// reference.cpp.
#pragma once

#include "kda/gated_norm/list.hpp"

namespace silt::rms_norm_gated_cpu_reference {

constexpr Reason accepts(const RmsNormGatedProblem&, const DeviceFacts&) { return accept(); }
Status launch(const RmsNormGatedProblem& problem, const RmsNormGatedArgs& args, const Launch& launch);

}  // namespace silt::rms_norm_gated_cpu_reference
