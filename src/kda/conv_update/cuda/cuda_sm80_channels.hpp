// The promise of cuda_sm80_channels: every checked bf16 problem, on an NVIDIA GPU from sm_80 on.
#pragma once

#include "kda/conv_update/cuda/params.hpp"
#include "kda/conv_update/list.hpp"

namespace silt::causal_conv1d_update_cuda_sm80_channels {

constexpr int64_t blocks_per_sequence(const CausalConv1dUpdateProblem& problem) {
  return (problem.c + causal_conv1d_update_cuda::kThreads - 1) / causal_conv1d_update_cuda::kThreads;
}

constexpr Reason accepts(const CausalConv1dUpdateProblem& problem, const DeviceFacts& facts) {
  if (facts.arch_number < 80) return refuse("arch", facts.arch, "sm_80 or newer");
  if (problem.dtype != DType::bf16) return refuse("dtype", to_string(problem.dtype), "bf16");
  if (problem.c >= int64_t{1} << 31) return refuse("c", problem.c, "less than 2147483648");
  const int64_t blocks = problem.b * blocks_per_sequence(problem);
  if (blocks >= int64_t{1} << 31) return refuse("b * ceil(c / 256)", blocks, "less than 2147483648");
  return accept();
}

Status launch(const CausalConv1dUpdateProblem& problem, const CausalConv1dUpdateArgs& args, const Launch& launch);

}  // namespace silt::causal_conv1d_update_cuda_sm80_channels
