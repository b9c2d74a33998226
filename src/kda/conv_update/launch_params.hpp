// From the checked call to what the kernels take: what the parameters of the CUDA and of the AMD kernels have alike.
#pragma once

#include "kda/conv_update/problem.hpp"
#include "kda/shared/launch_params.hpp"

namespace silt {

/// A backend adds what is its own.
template <class Params>
Params params_of(const CausalConv1dUpdateProblem& problem, const CausalConv1dUpdateArgs& args) {
  Params p{};
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
  p.channels = static_cast<decltype(p.channels)>(problem.c);
  p.slots = kda::slots_in_reach(problem.slots);
  p.null_slot = static_cast<int32_t>(problem.null_slot);
  return p;
}

}  // namespace silt
