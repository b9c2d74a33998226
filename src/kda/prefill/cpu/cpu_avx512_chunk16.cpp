// cpu_avx512_chunk16: simd_chunk16.inl.hpp for this instruction set.
#define SILT_SIMD_TARGET SILT_SIMD_AVX512
#include "kda/prefill/cpu/cpu_simd_chunk16.hpp"
#include "kda/prefill/cpu/simd_chunk16.inl.hpp"

namespace silt::kda_prefill_cpu_simd_chunk16 {

Status launch_avx512(const KdaPrefillProblem& problem, const KdaPrefillArgs& args, const Launch& launch) {
  return SILT_SIMD_NAMESPACE::prefill::launch<SILT_SIMD_NAMESPACE::prefill::Chunks>(problem, args, launch);
}

}  // namespace silt::kda_prefill_cpu_simd_chunk16
