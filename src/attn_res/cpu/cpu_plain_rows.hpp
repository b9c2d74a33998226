// The promise of cpu_plain_rows: every checked problem on any CPU.
#pragma once

#include "attn_res/list.hpp"

namespace silt::attn_res_cpu_plain_rows {

/// Partial sums of a statistic: enough for the compiler to vectorise, the same on every instruction set, so that a row
/// has the same bits everywhere.
constexpr int kLanes = 16;

constexpr Reason accepts(const AttnResProblem&, const DeviceFacts&) { return accept(); }
Status launch(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch);

}  // namespace silt::attn_res_cpu_plain_rows
