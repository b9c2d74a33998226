// Launch of hip_gfx942_channels and hip_gfx950_channels.
#include "kda/conv_update/hip/hip_channels.hpp"

#include "kda/conv_update/launch_params.hpp"

namespace silt::causal_conv1d_update_hip_channels {
namespace {

causal_conv1d_update_hip::Params make_params(const CausalConv1dUpdateProblem& problem,
                                             const CausalConv1dUpdateArgs& args) {
  auto p = params_of<causal_conv1d_update_hip::Params>(problem, args);
  p.groups_per_sequence = static_cast<uint32_t>(groups_per_sequence(problem));
  p.groups_reciprocal = hip::reciprocal_of(groups_per_sequence(problem));
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
