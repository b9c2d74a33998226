// The promise of cpu_avx2_heads, cpu_avx512_heads, cpu_avx512bf16_heads and cpu_neon_heads: every checked problem on
// a CPU with that instruction set. One source (simd_heads.inl.hpp), one entry of the list per instruction set; all of
// them give the same bits wherever workers flush denormals.
#pragma once

#include "dispatch/cpu_feature.hpp"
#include "kda/recurrence/list.hpp"

namespace silt::kda_recurrence_cpu_simd_heads {

template <CpuFeature kFeature>
Reason accepts(const KdaRecurrenceProblem&, const DeviceFacts& facts) {
  return needs_cpu_feature(facts, kFeature);
}

Status launch_avx2(const KdaRecurrenceProblem& problem, const KdaRecurrenceArgs& args, const Launch& launch);
Status launch_avx512(const KdaRecurrenceProblem& problem, const KdaRecurrenceArgs& args, const Launch& launch);
Status launch_avx512bf16(const KdaRecurrenceProblem& problem, const KdaRecurrenceArgs& args, const Launch& launch);
Status launch_neon(const KdaRecurrenceProblem& problem, const KdaRecurrenceArgs& args, const Launch& launch);

}  // namespace silt::kda_recurrence_cpu_simd_heads
