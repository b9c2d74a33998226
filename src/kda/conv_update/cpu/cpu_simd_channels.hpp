// The promise of cpu_avx2_channels, cpu_avx512_channels, cpu_avx512bf16_channels and cpu_neon_channels: every checked
// problem on a CPU with that instruction set. One source (simd_channels.inl.hpp), one entry of the list per instruction
// set; all of them give the same bits wherever workers flush denormals.
#pragma once

#include "dispatch/cpu_feature.hpp"
#include "kda/conv_update/list.hpp"

namespace silt::causal_conv1d_update_cpu_simd_channels {

template <CpuFeature kFeature>
Reason accepts(const CausalConv1dUpdateProblem&, const DeviceFacts& facts) {
  return needs_cpu_feature(facts, kFeature);
}

Status launch_avx2(const CausalConv1dUpdateProblem& problem, const CausalConv1dUpdateArgs& args, const Launch& launch);
Status launch_avx512(const CausalConv1dUpdateProblem& problem, const CausalConv1dUpdateArgs& args,
                     const Launch& launch);
Status launch_avx512bf16(const CausalConv1dUpdateProblem& problem, const CausalConv1dUpdateArgs& args,
                         const Launch& launch);
Status launch_neon(const CausalConv1dUpdateProblem& problem, const CausalConv1dUpdateArgs& args, const Launch& launch);

}  // namespace silt::causal_conv1d_update_cpu_simd_channels
