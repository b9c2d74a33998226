// From the checked call to what the kernels take: what the parameters of the CUDA and of the AMD kernels have alike.
#pragma once

#include "kda/decode/problem.hpp"
#include "kda/shared/launch_params.hpp"

namespace silt {

/// A backend adds what is its own.
template <class Params>
Params params_of(const KdaDecodeProblem& problem, const KdaDecodeArgs& args) {
  Params p{};
  p.x = static_cast<const uint16_t*>(args.x.data);
  p.conv_weight = static_cast<const float*>(args.conv_weight.data);
  p.conv_bias = static_cast<const float*>(args.conv_bias.data);
  p.history = static_cast<uint16_t*>(args.conv_state.data);
  p.raw_gate = static_cast<const uint16_t*>(args.raw_gate.data);
  p.raw_beta = static_cast<const uint16_t*>(args.raw_beta.data);
  p.a_log = static_cast<const float*>(args.A_log.data);
  p.dt_bias = static_cast<const float*>(args.dt_bias.data);
  p.indices = static_cast<const int32_t*>(args.state_indices.data);
  p.state = args.state.data;
  p.output_gate = static_cast<const uint16_t*>(args.output_gate.data);
  p.norm_weight = static_cast<const float*>(args.norm_weight.data);
  p.output = static_cast<uint16_t*>(args.output.data);
  p.x_stride = problem.x_stride;
  p.gate_stride = problem.gate_stride;
  p.beta_stride = problem.beta_stride;
  p.output_gate_stride = problem.output_gate_stride;
  p.output_stride = problem.output_stride;
  p.history_slot_stride = problem.conv_slot_stride;
  p.state_slot_stride = problem.state_slot_stride;
  p.heads = static_cast<decltype(p.heads)>(problem.h);
  p.slots = kda::slots_in_reach(problem.slots);
  p.null_slot = static_cast<int32_t>(problem.null_slot);
  p.lower_bound = problem.lower_bound;
  p.norm_eps = args.norm_eps;
  p.channel_major = problem.layout == kda::History::ds;
  return p;
}

}  // namespace silt
