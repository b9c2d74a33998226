// From the checked call to what the kernels take: what the parameters of the CUDA and of the AMD kernels have alike.
#pragma once

#include "kda/recurrence/problem.hpp"
#include "kda/shared/launch_params.hpp"

namespace silt {

/// A backend adds what is its own.
template <class Params>
Params params_of(const KdaRecurrenceProblem& problem, const KdaRecurrenceArgs& args) {
  Params p{};
  p.q = args.q.data;
  p.k = args.k.data;
  p.v = args.v.data;
  p.raw_gate = static_cast<const uint16_t*>(args.raw_gate.data);
  p.raw_beta = static_cast<const uint16_t*>(args.raw_beta.data);
  p.a_log = static_cast<const float*>(args.A_log.data);
  p.dt_bias = static_cast<const float*>(args.dt_bias.data);
  p.offsets = static_cast<const int32_t*>(args.offsets.data);
  p.indices = static_cast<const int32_t*>(args.state_indices.data);
  p.accepted = static_cast<const int32_t*>(args.accepted.data);
  p.state = args.state.data;
  p.output = args.output.data;
  p.q_stride = problem.q_stride;
  p.k_stride = problem.k_stride;
  p.v_stride = problem.v_stride;
  p.gate_stride = problem.gate_stride;
  p.beta_stride = problem.beta_stride;
  p.output_stride = problem.output_stride;
  p.state_slot_stride = problem.state_slot_stride;
  p.columns = problem.columns;
  p.heads = static_cast<decltype(p.heads)>(problem.h);
  p.slots = kda::slots_in_reach(problem.slots);
  p.null_slot = static_cast<int32_t>(problem.null_slot);
  p.lower_bound = problem.lower_bound;
  p.output_is_f32 = problem.output == DType::f32;
  return p;
}

}  // namespace silt
