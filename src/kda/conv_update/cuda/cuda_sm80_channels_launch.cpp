// Launch of cuda_sm80_channels.
#include "gpu/launch.hpp"
#include "kda/conv_update/cuda/cuda_sm80_channels.hpp"
#include "kda/conv_update/launch_params.hpp"

namespace silt::causal_conv1d_update_cuda_sm80_channels {

Status launch(const CausalConv1dUpdateProblem& problem, const CausalConv1dUpdateArgs& args, const Launch& launch) {
  auto p = params_of<causal_conv1d_update_cuda::Params>(problem, args);
  p.blocks_per_sequence = static_cast<uint32_t>(blocks_per_sequence(problem));
  gpu::LaunchShape shape;
  shape.grid = problem.b * blocks_per_sequence(problem);
  shape.block = causal_conv1d_update_cuda::kThreads;
  return gpu::launch({"causal_conv1d_update", "cuda_sm80_channels"},
                     causal_conv1d_update_cuda::sm80_channels_kernel(problem.output == DType::f32), shape,
                     args.x.device, launch, p);
}

}  // namespace silt::causal_conv1d_update_cuda_sm80_channels
