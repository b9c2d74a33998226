// Launch of cuda_sm80_rows.
#include "gpu/launch.hpp"
#include "kda/gated_norm/cuda/cuda_sm80_rows.hpp"
#include "kda/gated_norm/cuda/params.hpp"
#include "kda/gated_norm/launch_params.hpp"

namespace silt::rms_norm_gated_cuda_sm80_rows {

Status launch(const RmsNormGatedProblem& problem, const RmsNormGatedArgs& args, const Launch& launch) {
  const auto p = params_of<rms_norm_gated_cuda::Params>(problem, args);
  gpu::LaunchShape shape;
  shape.grid = (problem.t * problem.h + rms_norm_gated_cuda::kItemsPerBlock - 1) / rms_norm_gated_cuda::kItemsPerBlock;
  shape.block = rms_norm_gated_cuda::kThreads;
  return gpu::launch(
      {"rms_norm_gated", "cuda_sm80_rows"},
      rms_norm_gated_cuda::sm80_rows_kernel(problem.x == DType::f32, problem.output == DType::f32, problem.align == 16),
      shape, args.x.device, launch, p);
}

}  // namespace silt::rms_norm_gated_cuda_sm80_rows
