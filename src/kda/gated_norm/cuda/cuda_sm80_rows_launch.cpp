// Launch of cuda_sm80_rows.
#include "gpu/launch.hpp"
#include "kda/gated_norm/cuda/cuda_sm80_rows.hpp"
#include "kda/gated_norm/cuda/params.hpp"

namespace silt::rms_norm_gated_cuda_sm80_rows {

Status launch(const RmsNormGatedProblem& problem, const RmsNormGatedArgs& args, const Launch& launch) {
  rms_norm_gated_cuda::Params p;
  p.x = args.x.data;
  p.gate = static_cast<const uint16_t*>(args.gate.data);
  p.weight = static_cast<const float*>(args.weight.data);
  p.output = args.output.data;
  p.x_stride = problem.x_stride;
  p.gate_stride = problem.gate_stride;
  p.output_stride = problem.output_stride;
  p.items = static_cast<uint32_t>(problem.t * problem.h);
  p.heads = static_cast<uint32_t>(problem.h);
  p.eps = args.eps;
  p.silu = problem.activation == GateActivation::silu;
  gpu::LaunchShape shape;
  shape.grid = (problem.t * problem.h + rms_norm_gated_cuda::kItemsPerBlock - 1) / rms_norm_gated_cuda::kItemsPerBlock;
  shape.block = rms_norm_gated_cuda::kThreads;
  return gpu::launch(
      {"rms_norm_gated", "cuda_sm80_rows"},
      rms_norm_gated_cuda::sm80_rows_kernel(problem.x == DType::f32, problem.output == DType::f32, problem.align == 16),
      shape, args.x.device, launch, p);
}

}  // namespace silt::rms_norm_gated_cuda_sm80_rows
