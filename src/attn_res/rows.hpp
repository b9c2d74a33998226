// Row addresses of attn_res arguments in host memory.
#pragma once

#include "attn_res/problem.hpp"
#include "attn_res/reference.hpp"

namespace silt {

template <class Act>
Act* attn_res_slot(const AttnResProblem& problem, const AttnResArgs& args, int64_t t, int64_t slot) {
  return static_cast<Act*>(args.blocks.data) + t * problem.block_token_stride + slot * problem.block_slot_stride;
}

template <class Act>
AttnResRow<Act> attn_res_row(const AttnResProblem& problem, const AttnResArgs& args, int64_t t) {
  AttnResRow<Act> row;
  row.d = problem.d;
  row.prefix = static_cast<const Act*>(args.prefix.data) + t * problem.prefix_stride;
  if (problem.delta) row.delta = static_cast<const Act*>(args.delta.data) + t * problem.delta_stride;
  for (int64_t i = 0; i < problem.n; ++i) row.blocks.push_back(attn_res_slot<Act>(problem, args, t, i));
  row.norm_weight = static_cast<const bf16*>(args.norm_weight.data);
  row.qk_weight = static_cast<const bf16*>(args.qk_weight.data);
  row.output_norm_weight = static_cast<const bf16*>(args.output_norm_weight.data);
  row.eps = args.eps;
  row.output_norm_eps = args.output_norm_eps;
  return row;
}

}  // namespace silt
