// What: the reference of causal_conv1d_update as a kernel: plain loops in fp32, always there, last in the list.
#include "kda/conv_update/cpu/cpu_reference.hpp"

#include "kda/conv_update/reference.hpp"

namespace silt::causal_conv1d_update_cpu_reference {
namespace {

template <class Act, class Out>
void run(const CausalConv1dUpdateProblem& problem, const CausalConv1dUpdateArgs& args) {
  const int64_t per_part = problem.c / kda::kParts;
  CausalConv1dUpdateResult<float, Act> result;
  for (int64_t row = 0; row < problem.b; ++row) {
    const int64_t slot = causal_conv1d_update_index(args, row);
    const bool padding = kda::is_padding(slot, problem.null_slot, problem.slots);
    for (int64_t c = 0; c < problem.c; ++c) {
      Out* output = static_cast<Out*>(args.output.data) + row * problem.output_stride + c;
      if (!padding) {
        causal_conv1d_update_reference(problem, args, row, c, slot, &result);
        const auto history = causal_conv1d_update_history<Act>(problem, args, slot);
        for (int64_t step = 0; step < kda::kHistory; ++step) {
          history.at(c / per_part, step, c % per_part) = result.history[static_cast<size_t>(step)];
        }
      }
      for (int64_t t = 0; t < problem.n; ++t) {
        output[t * problem.output_token_stride] = padding ? Out{} : kda::rounded<Out>(result.z[static_cast<size_t>(t)]);
      }
    }
  }
}

}  // namespace

Status launch(const CausalConv1dUpdateProblem& problem, const CausalConv1dUpdateArgs& args, const Launch&) {
  const bool halves = problem.output == DType::bf16;
  if (problem.dtype == DType::bf16) {
    (halves ? run<bf16, bf16> : run<bf16, float>)(problem, args);
  } else {
    (halves ? run<float, bf16> : run<float, float>)(problem, args);
  }
  return {};
}

}  // namespace silt::causal_conv1d_update_cpu_reference
