// cpu_avx512_rows: simd_rows.inl.hpp for this instruction set.
#define SILT_SIMD_TARGET SILT_SIMD_AVX512
#include "kda/gated_norm/cpu/cpu_simd_rows.hpp"
#include "kda/gated_norm/cpu/simd_rows.inl.hpp"

namespace silt::rms_norm_gated_cpu_simd_rows {

Status launch_avx512(const RmsNormGatedProblem& problem, const RmsNormGatedArgs& args, const Launch& launch) {
  return SILT_SIMD_NAMESPACE::gated_norm_rows::launch(problem, args, launch);
}

}  // namespace silt::rms_norm_gated_cpu_simd_rows
