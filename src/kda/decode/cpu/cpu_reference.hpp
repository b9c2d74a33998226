// The promise of cpu_reference: every checked problem, in fp32, one row and head after the other. The work is
// reference.cpp.
#pragma once

#include "kda/decode/list.hpp"

namespace silt::kda_decode_cpu_reference {

constexpr Reason accepts(const KdaDecodeProblem&, const DeviceFacts&) { return accept(); }
Status launch(const KdaDecodeProblem& problem, const KdaDecodeArgs& args, const Launch& launch);

}  // namespace silt::kda_decode_cpu_reference
