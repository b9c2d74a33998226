// The promise of cpu_avx2_rows, cpu_avx512_rows, cpu_avx512bf16_rows and cpu_neon_rows: every checked sweep and merge
// on a CPU with that instruction set. One source each (simd_partials.inl.hpp, simd_merge.inl.hpp), one entry of the
// list per instruction set; all of them give the same bits wherever workers flush denormals.
#pragma once

#include "attn_res/two_phase/list.hpp"
#include "dispatch/cpu_feature.hpp"

namespace silt::attn_res_two_phase_cpu_simd_rows {

template <CpuFeature kFeature>
Reason accepts_partials(const AttnResPartialsProblem&, const DeviceFacts& facts) {
  return needs_cpu_feature(facts, kFeature);
}
template <CpuFeature kFeature>
Reason accepts_merge(const AttnResMergeProblem&, const DeviceFacts& facts) {
  return needs_cpu_feature(facts, kFeature);
}

Status partials_avx2(const AttnResPartialsProblem& problem, const AttnResPartialsArgs& args, const Launch& launch);
Status partials_avx512(const AttnResPartialsProblem& problem, const AttnResPartialsArgs& args, const Launch& launch);
Status partials_avx512bf16(const AttnResPartialsProblem& problem, const AttnResPartialsArgs& args,
                           const Launch& launch);
Status partials_neon(const AttnResPartialsProblem& problem, const AttnResPartialsArgs& args, const Launch& launch);

Status merge_avx2(const AttnResMergeProblem& problem, const AttnResMergeArgs& args, const Launch& launch);
Status merge_avx512(const AttnResMergeProblem& problem, const AttnResMergeArgs& args, const Launch& launch);
Status merge_avx512bf16(const AttnResMergeProblem& problem, const AttnResMergeArgs& args, const Launch& launch);
Status merge_neon(const AttnResMergeProblem& problem, const AttnResMergeArgs& args, const Launch& launch);

}  // namespace silt::attn_res_two_phase_cpu_simd_rows
