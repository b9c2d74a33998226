// The promise of hip_gfx942_heads and hip_gfx950_heads: every checked bf16 problem on a device of exactly that
// architecture, since code for one does not run on the other.
#pragma once

#include <string>

#include "kda/decode/list.hpp"
#include "kda/shared/hip/accepts.hpp"

namespace silt::kda_decode_hip_heads {

/// Whole vectors can be moved: 16 bytes of state, 8 of weights, 4 of activations.
constexpr bool aligned(const KdaDecodeProblem& problem) { return problem.align >= 4 && problem.state_align >= 16; }

constexpr Reason accepts_gfx942(const KdaDecodeProblem& problem, const DeviceFacts& facts) {
  return kda_hip::accepts_heads(facts, 0x942, "gfx942", problem.dtype, problem.h, "b * h", problem.b * problem.h);
}
constexpr Reason accepts_gfx950(const KdaDecodeProblem& problem, const DeviceFacts& facts) {
  return kda_hip::accepts_heads(facts, 0x950, "gfx950", problem.dtype, problem.h, "b * h", problem.b * problem.h);
}

std::string plan(const KdaDecodeProblem& problem, const DeviceFacts& facts);
Status launch_gfx942(const KdaDecodeProblem& problem, const KdaDecodeArgs& args, const Launch& launch);
Status launch_gfx950(const KdaDecodeProblem& problem, const KdaDecodeArgs& args, const Launch& launch);

}  // namespace silt::kda_decode_hip_heads
