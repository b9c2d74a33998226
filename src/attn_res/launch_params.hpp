// From the checked call to what the kernels take: what the parameters of the CUDA and of the AMD kernels have alike.
#pragma once

#include "attn_res/problem.hpp"

namespace silt {

/// A backend adds what is its own.
template <class Params>
Params params_of(const AttnResProblem& problem, const AttnResArgs& args) {
  Params p{};
  p.prefix = static_cast<uint16_t*>(args.prefix.data);
  p.delta = static_cast<const uint16_t*>(args.delta.data);
  p.blocks = static_cast<const uint16_t*>(args.blocks.data);
  if (problem.write >= 0) {
    p.written = static_cast<uint16_t*>(args.blocks.data) + problem.write * problem.block_slot_stride;
  }
  p.norm_weight = static_cast<const uint16_t*>(args.norm_weight.data);
  p.qk_weight = static_cast<const uint16_t*>(args.qk_weight.data);
  p.output_norm_weight = static_cast<const uint16_t*>(args.output_norm_weight.data);
  p.output = static_cast<uint16_t*>(args.output.data);
  p.prefix_stride = problem.prefix_stride;
  p.delta_stride = problem.delta_stride;
  p.block_token_stride = problem.block_token_stride;
  p.block_slot_stride = problem.block_slot_stride;
  p.output_stride = problem.output_stride;
  p.t = static_cast<decltype(p.t)>(problem.t);
  p.d = static_cast<decltype(p.d)>(problem.d);
  p.n = static_cast<decltype(p.n)>(problem.n);
  p.inverse_d = 1.0F / static_cast<float>(problem.d);
  p.eps = args.eps;
  p.output_norm_eps = args.output_norm_eps;
  return p;
}

}  // namespace silt
