// The promise of cpu_plain_rows: every checked problem on any CPU.
#pragma once

#include "kda/gated_norm/list.hpp"

namespace silt::rms_norm_gated_cpu_plain_rows {

constexpr Reason accepts(const RmsNormGatedProblem&, const DeviceFacts&) { return accept(); }
Status launch(const RmsNormGatedProblem& problem, const RmsNormGatedArgs& args, const Launch& launch);

}  // namespace silt::rms_norm_gated_cpu_plain_rows
