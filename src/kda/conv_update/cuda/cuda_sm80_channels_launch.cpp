// Launch of cuda_sm80_channels.
#include <algorithm>
#include <limits>

#include "gpu/launch.hpp"
#include "kda/conv_update/cuda/cuda_sm80_channels.hpp"

namespace silt::causal_conv1d_update_cuda_sm80_channels {

Status launch(const CausalConv1dUpdateProblem& problem, const CausalConv1dUpdateArgs& args, const Launch& launch) {
  causal_conv1d_update_cuda::Params p;
  p.x = static_cast<const uint16_t*>(args.x.data);
  p.weight = static_cast<const float*>(args.weight.data);
  p.bias = static_cast<const float*>(args.bias.data);
  p.history = static_cast<uint16_t*>(args.conv_state.data);
  p.indices = static_cast<const int32_t*>(args.state_indices.data);
  p.output = args.output.data;
  p.x_stride = problem.x_stride;
  p.x_token_stride = problem.x_token_stride;
  p.output_stride = problem.output_stride;
  p.output_token_stride = problem.output_token_stride;
  p.history_slot_stride = problem.conv_slot_stride;
  const bool channel_major = problem.layout == kda::History::ds;
  p.history_channel_stride = channel_major ? kda::kHistory : 1;
  p.history_step_stride = channel_major ? 1 : problem.c;
  p.tokens = problem.n;
  p.channels = static_cast<uint32_t>(problem.c);
  p.blocks_per_sequence = static_cast<uint32_t>(blocks_per_sequence(problem));
  p.slots = static_cast<int32_t>(std::min<int64_t>(problem.slots, std::numeric_limits<int32_t>::max()));
  p.null_slot = static_cast<int32_t>(problem.null_slot);
  gpu::LaunchShape shape;
  shape.grid = problem.b * blocks_per_sequence(problem);
  shape.block = causal_conv1d_update_cuda::kThreads;
  return gpu::launch({"causal_conv1d_update", "cuda_sm80_channels"},
                     causal_conv1d_update_cuda::sm80_channels_kernel(problem.output == DType::f32), shape,
                     args.x.device, launch, p);
}

}  // namespace silt::causal_conv1d_update_cuda_sm80_channels
