// The promise of cuda_sm80_rows: every checked problem with a bf16 gate, on an NVIDIA GPU from sm_80 on.
#pragma once

#include "kda/gated_norm/list.hpp"

namespace silt::rms_norm_gated_cuda_sm80_rows {

constexpr Reason accepts(const RmsNormGatedProblem& problem, const DeviceFacts& facts) {
  if (facts.arch_number < 80) return refuse("arch", facts.arch, "sm_80 or newer");
  if (problem.gate != DType::bf16) return refuse("gate", to_string(problem.gate), "bf16");
  if (problem.t * problem.h >= int64_t{1} << 31) return refuse("t * h", problem.t * problem.h, "less than 2147483648");
  return accept();
}

Status launch(const RmsNormGatedProblem& problem, const RmsNormGatedArgs& args, const Launch& launch);

}  // namespace silt::rms_norm_gated_cuda_sm80_rows
