// What: the reference of kda_prefill as a kernel: plain loops in fp32, always there, last in the list.
#include "kda/prefill/cpu/cpu_reference.hpp"

#include "kda/prefill/reference.hpp"
#include "kda/prefill/rows.hpp"

namespace silt::kda_prefill_cpu_reference {
namespace {

template <class Act>
void run(const KdaPrefillProblem& p, const KdaPrefillArgs& args) {
  KdaPrefillCarry<float, Act> carry;
  kda::TokenResult<float> result;
  for (int64_t sequence = 0; sequence < p.n; ++sequence) {
    const kda::Rows rows = kda::rows_of(args.offsets, sequence);
    const int64_t slot = kda_prefill_index(args, sequence);
    const bool padding = kda::is_padding(slot, p.null_slot, p.slots);
    if (rows.count() == 0) continue;
    for (int64_t head = 0; head < p.h; ++head) {
      result.output = {};  // what a padding sequence gives
      if (!padding) kda_prefill_start(p, args, sequence, head, slot, &carry);
      for (int64_t row = rows.begin; row < rows.end; ++row) {
        if (!padding) kda_prefill_reference(p, args, row, head, &carry, &result);
        kda::store_head(result.output, args.output.data, p.dtype, row * p.output_stride + head * kda::kDim);
      }
      if (padding) continue;
      kda::store_window(kda_prefill_history<Act>(p, args, slot, head), carry.window);
      kda::store_state(carry.state, p.state, kda_prefill_state(p, args, slot, head));
    }
  }
}

}  // namespace

Status launch(const KdaPrefillProblem& problem, const KdaPrefillArgs& args, const Launch&) {
  if (problem.dtype == DType::bf16) {
    run<bf16>(problem, args);
  } else {
    run<float>(problem, args);
  }
  return {};
}

}  // namespace silt::kda_prefill_cpu_reference
