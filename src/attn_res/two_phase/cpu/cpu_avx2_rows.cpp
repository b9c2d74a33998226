// cpu_avx2_rows: simd_partials.inl.hpp and simd_merge.inl.hpp for this instruction set.
#define SILT_SIMD_TARGET SILT_SIMD_AVX2
#include "attn_res/two_phase/cpu/simd_merge.inl.hpp"
#include "attn_res/two_phase/cpu/simd_partials.inl.hpp"

namespace silt::attn_res_two_phase_cpu_simd_rows {

Status partials_avx2(const AttnResPartialsProblem& problem, const AttnResPartialsArgs& args, const Launch& launch) {
  return SILT_SIMD_NAMESPACE::attn_res_partials_rows::launch(problem, args, launch);
}

Status merge_avx2(const AttnResMergeProblem& problem, const AttnResMergeArgs& args, const Launch& launch) {
  return SILT_SIMD_NAMESPACE::attn_res_merge_rows::launch(problem, args, launch);
}

}  // namespace silt::attn_res_two_phase_cpu_simd_rows
