// cpu_avx2_heads: simd_heads.inl.hpp for this instruction set.
#define SILT_SIMD_TARGET SILT_SIMD_AVX2
#include "kda/recurrence/cpu/cpu_simd_heads.hpp"
#include "kda/recurrence/cpu/simd_heads.inl.hpp"

namespace silt::kda_recurrence_cpu_simd_heads {

Status launch_avx2(const KdaRecurrenceProblem& problem, const KdaRecurrenceArgs& args, const Launch& launch) {
  return SILT_SIMD_NAMESPACE::recurrence_heads::launch(problem, args, launch);
}

}  // namespace silt::kda_recurrence_cpu_simd_heads
