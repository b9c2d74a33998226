// The promise of cpu_avx2_chunk16, cpu_avx512_chunk16, cpu_avx512bf16_chunk16 and cpu_neon_chunk16: every checked
// problem with at least as many tokens as a chunk, on a CPU with that instruction set. One source
// (simd_chunk16.inl.hpp), one entry of the list per instruction set; all of them give the same bits wherever workers
// flush denormals.
#pragma once

#include "dispatch/cpu_feature.hpp"
#include "kda/prefill/list.hpp"

namespace silt::kda_prefill_cpu_simd_chunk16 {

/// Tokens of a chunk. Per token a chunk costs three multiply-adds per state element whatever its length, and 4 * 128
/// operations per pair of its tokens, half for the triangles and half to solve them: 8 % of the whole at 16, 16 %
/// at 32. The state is read and written once a chunk: at 16 that is a sixteenth of what the token loop moves.
constexpr int64_t kChunk = 16;

/// Fewer tokens fill no chunk, and the token loop is what would run.
template <CpuFeature kFeature>
Reason accepts(const KdaPrefillProblem& problem, const DeviceFacts& facts) {
  Reason reason = needs_cpu_feature(facts, kFeature);
  if (reason.accepted() && problem.t < kChunk) reason = refuse("t", problem.t, "16 or more, so that a chunk is full");
  return reason;
}

/// What explain says of it.
std::string plan(const KdaPrefillProblem& problem, const DeviceFacts& facts);

Status launch_avx2(const KdaPrefillProblem& problem, const KdaPrefillArgs& args, const Launch& launch);
Status launch_avx512(const KdaPrefillProblem& problem, const KdaPrefillArgs& args, const Launch& launch);
Status launch_avx512bf16(const KdaPrefillProblem& problem, const KdaPrefillArgs& args, const Launch& launch);
Status launch_neon(const KdaPrefillProblem& problem, const KdaPrefillArgs& args, const Launch& launch);

}  // namespace silt::kda_prefill_cpu_simd_chunk16
