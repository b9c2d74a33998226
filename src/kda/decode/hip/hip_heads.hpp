// The promise of hip_gfx942_heads and hip_gfx950_heads: every checked bf16 problem on a device of exactly that
// architecture, since code for one does not run on the other.
#pragma once

#include <string>

#include "gpu/hip/launch.hpp"
#include "kda/decode/list.hpp"

namespace silt::kda_decode_hip_heads {

constexpr int kThreads = 256;  ///< four waves: q, k, v and the gates; each then has 32 rows of the state in registers
/// Offsets inside a slot (H * 128 * 128 of state, 9 * 128 * H of history) fit 32 bits.
constexpr int64_t kMaxHeads = 1 << 17;

/// Whole vectors can be moved: 16 bytes of state, 8 of weights, 4 of activations.
constexpr bool aligned(const KdaDecodeProblem& problem) { return problem.align >= 4 && problem.state_align >= 16; }

constexpr Reason accepts(const KdaDecodeProblem& problem, const DeviceFacts& facts, int32_t arch,
                         std::string_view isa) {
  if (facts.arch_number != arch) return refuse("arch", facts.arch, isa);
  if (problem.dtype != DType::bf16) return refuse("dtype", to_string(problem.dtype), "bf16");
  if (problem.h > kMaxHeads) return refuse("h", problem.h, "at most 131072");
  if (problem.b * problem.h > hip::most_groups(kThreads))
    return refuse("b * h", problem.b * problem.h, "at most 16777215");
  return accept();
}
constexpr Reason accepts_gfx942(const KdaDecodeProblem& problem, const DeviceFacts& facts) {
  return accepts(problem, facts, 0x942, "gfx942");
}
constexpr Reason accepts_gfx950(const KdaDecodeProblem& problem, const DeviceFacts& facts) {
  return accepts(problem, facts, 0x950, "gfx950");
}

std::string plan(const KdaDecodeProblem& problem, const DeviceFacts& facts);
Status launch_gfx942(const KdaDecodeProblem& problem, const KdaDecodeArgs& args, const Launch& launch);
Status launch_gfx950(const KdaDecodeProblem& problem, const KdaDecodeArgs& args, const Launch& launch);

}  // namespace silt::kda_decode_hip_heads
