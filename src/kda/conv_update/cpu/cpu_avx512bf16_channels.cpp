// cpu_avx512bf16_channels: simd_channels.inl.hpp for this instruction set.
#define SILT_SIMD_TARGET SILT_SIMD_AVX512BF16
#include "kda/conv_update/cpu/cpu_simd_channels.hpp"
#include "kda/conv_update/cpu/simd_channels.inl.hpp"

namespace silt::causal_conv1d_update_cpu_simd_channels {

Status launch_avx512bf16(const CausalConv1dUpdateProblem& problem, const CausalConv1dUpdateArgs& args,
                         const Launch& launch) {
  return SILT_SIMD_NAMESPACE::conv_update_channels::launch(problem, args, launch);
}

}  // namespace silt::causal_conv1d_update_cpu_simd_channels
