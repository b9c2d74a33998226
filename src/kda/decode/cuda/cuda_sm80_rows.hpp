// The promise of cuda_sm80_rows: every checked bf16 problem on an NVIDIA GPU from sm_80 on.
#pragma once

#include "kda/decode/cuda/params.hpp"
#include "kda/decode/list.hpp"

namespace silt::kda_decode_cuda_sm80_rows {

constexpr Reason accepts(const KdaDecodeProblem& problem, const DeviceFacts& facts) {
  if (facts.arch_number < 80) return refuse("arch", facts.arch, "sm_80 or newer");
  if (problem.dtype != DType::bf16) return refuse("dtype", to_string(problem.dtype), "bf16");
  if (problem.h > kda_decode_cuda::kMaxHeads) return refuse("h", problem.h, "at most 131072");
  if (problem.b * problem.h >= int64_t{1} << 31) return refuse("b * h", problem.b * problem.h, "less than 2147483648");
  return accept();
}

Status launch(const KdaDecodeProblem& problem, const KdaDecodeArgs& args, const Launch& launch);

}  // namespace silt::kda_decode_cuda_sm80_rows
