// cpu_avx512bf16_rows: simd_rows.inl.hpp for this instruction set.
#define SILT_SIMD_TARGET SILT_SIMD_AVX512BF16
#include "attn_res/cpu/simd_rows.inl.hpp"

namespace silt::attn_res_cpu_simd_rows {

Status launch_avx512bf16(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch) {
  return SILT_SIMD_NAMESPACE::attn_res_rows::launch(problem, args, launch);
}

}  // namespace silt::attn_res_cpu_simd_rows
