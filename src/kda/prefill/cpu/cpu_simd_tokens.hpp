// The promise of cpu_avx2_tokens, cpu_avx512_tokens, cpu_avx512bf16_tokens and cpu_neon_tokens: every checked problem
// on a CPU with that instruction set. One source (simd_tokens.inl.hpp), one entry of the list per instruction set; all
// of them give the same bits wherever workers flush denormals.
#pragma once

#include "dispatch/cpu_feature.hpp"
#include "kda/prefill/list.hpp"

namespace silt::kda_prefill_cpu_simd_tokens {

template <CpuFeature kFeature>
Reason accepts(const KdaPrefillProblem&, const DeviceFacts& facts) {
  return needs_cpu_feature(facts, kFeature);
}

Status launch_avx2(const KdaPrefillProblem& problem, const KdaPrefillArgs& args, const Launch& launch);
Status launch_avx512(const KdaPrefillProblem& problem, const KdaPrefillArgs& args, const Launch& launch);
Status launch_avx512bf16(const KdaPrefillProblem& problem, const KdaPrefillArgs& args, const Launch& launch);
Status launch_neon(const KdaPrefillProblem& problem, const KdaPrefillArgs& args, const Launch& launch);

}  // namespace silt::kda_prefill_cpu_simd_tokens
