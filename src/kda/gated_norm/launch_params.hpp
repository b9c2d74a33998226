// From the checked call to what the kernels take: what the parameters of the CUDA and of the AMD kernels have alike.
#pragma once

#include "kda/gated_norm/problem.hpp"

namespace silt {

/// A backend adds what is its own.
template <class Params>
Params params_of(const RmsNormGatedProblem& problem, const RmsNormGatedArgs& args) {
  Params p{};
  p.x = args.x.data;
  p.gate = static_cast<const uint16_t*>(args.gate.data);
  p.weight = static_cast<const float*>(args.weight.data);
  p.output = args.output.data;
  p.x_stride = problem.x_stride;
  p.gate_stride = problem.gate_stride;
  p.output_stride = problem.output_stride;
  p.items = static_cast<decltype(p.items)>(problem.t * problem.h);
  p.heads = static_cast<decltype(p.heads)>(problem.h);
  p.eps = args.eps;
  p.silu = problem.activation == GateActivation::silu;
  return p;
}

}  // namespace silt
