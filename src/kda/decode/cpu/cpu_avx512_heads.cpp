// cpu_avx512_heads: simd_heads.inl.hpp for this instruction set.
#define SILT_SIMD_TARGET SILT_SIMD_AVX512
#include "kda/decode/cpu/cpu_simd_heads.hpp"
#include "kda/decode/cpu/simd_heads.inl.hpp"

namespace silt::kda_decode_cpu_simd_heads {

Status launch_avx512(const KdaDecodeProblem& problem, const KdaDecodeArgs& args, const Launch& launch) {
  return SILT_SIMD_NAMESPACE::kda_decode_heads::launch(problem, args, launch);
}

}  // namespace silt::kda_decode_cpu_simd_heads
