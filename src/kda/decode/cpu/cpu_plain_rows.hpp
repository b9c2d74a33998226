// The promise of cpu_plain_rows: every checked problem on any CPU.
#pragma once

#include "kda/decode/list.hpp"

namespace silt::kda_decode_cpu_plain_rows {

constexpr Reason accepts(const KdaDecodeProblem&, const DeviceFacts&) { return accept(); }
Status launch(const KdaDecodeProblem& problem, const KdaDecodeArgs& args, const Launch& launch);

}  // namespace silt::kda_decode_cpu_plain_rows
