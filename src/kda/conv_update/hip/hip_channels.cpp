// Launch of hip_gfx942_channels and hip_gfx950_channels.
#include "kda/conv_update/hip/hip_channels.hpp"

#include <algorithm>
#include <limits>

namespace silt::causal_conv1d_update_hip_channels {
namespace {

causal_conv1d_update_hip::Params make_params(const CausalConv1dUpdateProblem& problem,
                                             const CausalConv1dUpdateArgs& args) {
  causal_conv1d_update_hip::Params p{};
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
  p.groups_per_sequence = static_cast<uint32_t>(groups_per_sequence(problem));
  p.groups_reciprocal = hip::reciprocal_of(groups_per_sequence(problem));
  // An index is an int32, so slots behind its range are out of reach anyway.
  p.slots = static_cast<int32_t>(std::min<int64_t>(problem.slots, std::numeric_limits<int32_t>::max()));
  p.null_slot = static_cast<int32_t>(problem.null_slot);
  return p;
}

/// By output.
hip::Function functions[] = {
    {"causal_conv1d_update", "causal_conv1d_update_hip_channels_bf16"},
    {"causal_conv1d_update", "causal_conv1d_update_hip_channels_f32"},
};

/// An ordinary launch whatever `pdl` says: there are no dependent launches here.
Status launch_as(std::string_view kernel, const CausalConv1dUpdateProblem& problem, const CausalConv1dUpdateArgs& args,
                 const Launch& launch) {
  return hip::launch({"causal_conv1d_update", kernel}, functions[problem.output == DType::f32 ? 1 : 0],
                     {problem.b * groups_per_sequence(problem), causal_conv1d_update_hip::kThreads}, args.x.device,
                     launch, make_params(problem, args));
}

}  // namespace

Status launch_gfx942(const CausalConv1dUpdateProblem& problem, const CausalConv1dUpdateArgs& args,
                     const Launch& launch) {
  return launch_as("hip_gfx942_channels", problem, args, launch);
}
Status launch_gfx950(const CausalConv1dUpdateProblem& problem, const CausalConv1dUpdateArgs& args,
                     const Launch& launch) {
  return launch_as("hip_gfx950_channels", problem, args, launch);
}

}  // namespace silt::causal_conv1d_update_hip_channels
