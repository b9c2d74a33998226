// What: the references of both phases as kernels: plain loops in fp32, always there, last in their lists.
#include "attn_res/two_phase/cpu/cpu_reference.hpp"

#include <algorithm>

#include "attn_res/reference_maths.hpp"
#include "attn_res/two_phase/rows.hpp"

namespace silt::attn_res_two_phase_cpu_reference {
namespace {

void store(void* data, DType dtype, int64_t offset, const std::vector<float>& row) {
  for (const float value : row) {
    if (dtype == DType::bf16) {
      static_cast<bf16*>(data)[offset++] = to_bf16(value);
    } else {
      static_cast<float*>(data)[offset++] = value;
    }
  }
}

template <class Act>
void run_partials(const AttnResPartialsProblem& problem, const AttnResPartialsArgs& args) {
  AttnResPartialsResult<float> result;
  for (int64_t q = 0; q < problem.q; ++q) {
    for (int64_t t = 0; t < problem.t; ++t) {
      attn_res_partials_reference(attn_res_partials_row<Act>(problem, args, t, q), &result);
      float* statistics = static_cast<float*>(args.statistics.data) + q * problem.statistics_query_stride +
                          t * problem.statistics_token_stride;
      statistics[0] = result.largest;
      statistics[1] = result.denominator;
      store(args.mix.data, problem.partial, q * problem.mix_query_stride + t * problem.mix_token_stride, result.mix);
    }
  }
}

template <class Act>
void run_merge(const AttnResMergeProblem& problem, const AttnResMergeArgs& args) {
  AttnResMergeResult<float, Act> result;
  for (int64_t t = 0; t < problem.t; ++t) {
    attn_res_merge_reference(attn_res_merge_row<Act>(problem, args, t), &result);
    if (problem.delta) {
      std::copy(result.prefix.begin(), result.prefix.end(),
                static_cast<Act*>(args.prefix.data) + t * problem.prefix_stride);
    }
    if (problem.write) {
      std::copy(result.prefix.begin(), result.prefix.end(),
                static_cast<Act*>(args.slot.data) + t * problem.slot_stride);
    }
    store(args.output.data, problem.dtype, t * problem.output_stride, result.output);
  }
}

}  // namespace

Status launch_partials(const AttnResPartialsProblem& problem, const AttnResPartialsArgs& args, const Launch&) {
  if (problem.dtype == DType::bf16) {
    run_partials<bf16>(problem, args);
  } else {
    run_partials<float>(problem, args);
  }
  return {};
}

Status launch_merge(const AttnResMergeProblem& problem, const AttnResMergeArgs& args, const Launch&) {
  if (problem.dtype == DType::bf16) {
    run_merge<bf16>(problem, args);
  } else {
    run_merge<float>(problem, args);
  }
  return {};
}

}  // namespace silt::attn_res_two_phase_cpu_reference
