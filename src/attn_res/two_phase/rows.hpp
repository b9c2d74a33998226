// Row addresses of the two phases' arguments in host memory.
#pragma once

#include "attn_res/two_phase/problem.hpp"
#include "attn_res/two_phase/reference.hpp"

namespace silt {

/// A partial's row of `columns` values, widened.
inline std::vector<float> attn_res_widened(const void* data, DType dtype, int64_t offset, int64_t columns) {
  std::vector<float> row;
  for (int64_t c = 0; c < columns; ++c) {
    row.push_back(dtype == DType::bf16 ? to_float(static_cast<const bf16*>(data)[offset + c])
                                       : static_cast<const float*>(data)[offset + c]);
  }
  return row;
}

template <class Act>
AttnResPartialsRow<Act> attn_res_partials_row(const AttnResPartialsProblem& problem, const AttnResPartialsArgs& args,
                                              int64_t t, int64_t q) {
  AttnResPartialsRow<Act> row;
  row.d = problem.d;
  const Act* bank = static_cast<const Act*>(args.blocks.data) + t * problem.block_token_stride;
  for (int64_t i = 0; i < problem.n; ++i) row.blocks.push_back(bank + i * problem.block_slot_stride);
  row.norm_weight = static_cast<const bf16*>(args.norm_weight.data) + q * problem.norm_weight_stride;
  row.qk_weight = static_cast<const bf16*>(args.qk_weight.data) + q * problem.qk_weight_stride;
  row.eps = args.eps;
  return row;
}

template <class Act>
AttnResMergeRow<Act> attn_res_merge_row(const AttnResMergeProblem& problem, const AttnResMergeArgs& args, int64_t t) {
  AttnResMergeRow<Act> row;
  row.d = problem.d;
  row.prefix = static_cast<const Act*>(args.prefix.data) + t * problem.prefix_stride;
  if (problem.delta) row.delta = static_cast<const Act*>(args.delta.data) + t * problem.delta_stride;
  const float* statistics = static_cast<const float*>(args.statistics.data) + t * problem.statistics_stride;
  row.largest = statistics[0];
  row.denominator = statistics[1];
  row.mix = attn_res_widened(args.mix.data, problem.partial, t * problem.mix_stride, problem.d);
  row.norm_weight = static_cast<const bf16*>(args.norm_weight.data);
  row.qk_weight = static_cast<const bf16*>(args.qk_weight.data);
  row.output_norm_weight = static_cast<const bf16*>(args.output_norm_weight.data);
  row.eps = args.eps;
  row.output_norm_eps = args.output_norm_eps;
  return row;
}

}  // namespace silt
