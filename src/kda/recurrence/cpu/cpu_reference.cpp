// What: the reference of kda_recurrence as a kernel: plain loops in fp32, always there, last in the list.
#include "kda/recurrence/cpu/cpu_reference.hpp"

#include "kda/recurrence/reference.hpp"
#include "kda/shared/sequences.hpp"

namespace silt::kda_recurrence_cpu_reference {

Status launch(const KdaRecurrenceProblem& p, const KdaRecurrenceArgs& args, const Launch&) {
  std::vector<float> state;
  kda::TokenResult<float> result;
  for (int64_t sequence = 0; sequence < p.n; ++sequence) {
    const kda::Rows rows = kda::rows_of(args.offsets, sequence);
    const int64_t slot = kda_recurrence_index(args, sequence);
    const bool padding = kda::is_padding(slot, p.null_slot, p.slots);
    if (rows.count() == 0) continue;
    for (int64_t head = 0; head < p.h; ++head) {
      result.o = {};  // what a padding sequence gives
      if (!padding) kda::load_state(kda_recurrence_state(p, args, slot, head), p.state, &state);
      for (int64_t row = rows.begin; row < rows.end; ++row) {
        if (!padding) kda_recurrence_reference(p, args, row, head, state.data(), &result);
        kda::store_head(result.o, args.output.data, p.output, row * p.output_stride + head * kda::kDim);
      }
      if (!padding) kda::store_state(state, p.state, kda_recurrence_state(p, args, slot, head));
    }
  }
  return {};
}

}  // namespace silt::kda_recurrence_cpu_reference
