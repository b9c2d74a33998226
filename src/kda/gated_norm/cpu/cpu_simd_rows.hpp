// The promise of cpu_avx2_rows, cpu_avx512_rows, cpu_avx512bf16_rows and cpu_neon_rows: every checked problem on
// a CPU with that instruction set. One source (simd_rows.inl.hpp), one entry of the list per instruction set; all of
// them give the same bits wherever workers flush denormals.
#pragma once

#include "dispatch/cpu_feature.hpp"
#include "kda/gated_norm/list.hpp"

namespace silt::rms_norm_gated_cpu_simd_rows {

template <CpuFeature kFeature>
Reason accepts(const RmsNormGatedProblem&, const DeviceFacts& facts) {
  return needs_cpu_feature(facts, kFeature);
}

Status launch_avx2(const RmsNormGatedProblem& problem, const RmsNormGatedArgs& args, const Launch& launch);
Status launch_avx512(const RmsNormGatedProblem& problem, const RmsNormGatedArgs& args, const Launch& launch);
Status launch_avx512bf16(const RmsNormGatedProblem& problem, const RmsNormGatedArgs& args, const Launch& launch);
Status launch_neon(const RmsNormGatedProblem& problem, const RmsNormGatedArgs& args, const Launch& launch);

}  // namespace silt::rms_norm_gated_cpu_simd_rows
