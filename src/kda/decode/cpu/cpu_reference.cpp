// What: the reference of kda_decode as a kernel: plain loops in fp32, always there, last in the list.
#include "kda/decode/cpu/cpu_reference.hpp"

#include <algorithm>

#include "kda/decode/reference.hpp"
#include "kda/decode/rows.hpp"

namespace silt::kda_decode_cpu_reference {
namespace {

template <class Act>
void run(const KdaDecodeProblem& problem, const KdaDecodeArgs& args) {
  KdaDecodeResult<float, Act> result;
  for (int64_t row = 0; row < problem.b; ++row) {
    const int64_t slot = kda_decode_index(args, row);
    for (int64_t head = 0; head < problem.h; ++head) {
      Act* output = kda_decode_output<Act>(problem, args, row, head);
      if (kda::is_padding(slot, problem.null_slot, problem.slots)) {
        std::fill_n(output, kda::kDim, Act{});
        continue;
      }
      kda_decode_reference(problem, args, row, head, slot, &result);
      kda::store_window(kda_decode_history<Act>(problem, args, slot, head), result.window);
      kda::store_state(result.state, problem.state, kda_decode_state(problem, args, slot, head));
      for (size_t i = 0; i < result.token.output.size(); ++i) output[i] = kda::rounded<Act>(result.token.output[i]);
    }
  }
}

}  // namespace

Status launch(const KdaDecodeProblem& problem, const KdaDecodeArgs& args, const Launch&) {
  if (problem.dtype == DType::bf16) {
    run<bf16>(problem, args);
  } else {
    run<float>(problem, args);
  }
  return {};
}

}  // namespace silt::kda_decode_cpu_reference
