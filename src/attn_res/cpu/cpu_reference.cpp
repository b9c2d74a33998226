// What: the reference of attn_res as a kernel: plain loops in fp32, always there, last in the list.
#include "attn_res/cpu/cpu_reference.hpp"

#include <algorithm>

#include "attn_res/reference.hpp"
#include "attn_res/rows.hpp"

namespace silt::attn_res_cpu_reference {
namespace {

template <class Act>
void run(const AttnResProblem& problem, const AttnResArgs& args) {
  AttnResResult<float, Act> result;
  for (int64_t t = 0; t < problem.t; ++t) {
    const AttnResRow<Act> row = attn_res_row<Act>(problem, args, t);
    attn_res_reference(row, &result);
    Act* prefix = static_cast<Act*>(args.prefix.data) + t * problem.prefix_stride;
    Act* output = static_cast<Act*>(args.output.data) + t * problem.output_stride;
    std::copy(result.prefix.begin(), result.prefix.end(), prefix);
    if (problem.write >= 0) {
      std::copy(result.prefix.begin(), result.prefix.end(), attn_res_slot<Act>(problem, args, t, problem.write));
    }
    for (int64_t c = 0; c < problem.d; ++c) {
      if constexpr (std::is_same_v<Act, bf16>) {
        output[c] = to_bf16(result.output[static_cast<size_t>(c)]);
      } else {
        output[c] = result.output[static_cast<size_t>(c)];
      }
    }
  }
}

}  // namespace

Status launch(const AttnResProblem& problem, const AttnResArgs& args, const Launch&) {
  if (problem.dtype == DType::bf16) {
    run<bf16>(problem, args);
  } else {
    run<float>(problem, args);
  }
  return {};
}

}  // namespace silt::attn_res_cpu_reference
