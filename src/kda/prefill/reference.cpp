// What: kda_prefill as its contract reads, token after token; the maths of a head is kda/shared/reference.cpp.
#include "kda/prefill/reference.hpp"

#include "kda/prefill/rows.hpp"

namespace silt {

template <class Real, class Act>
void kda_prefill_start(const KdaPrefillProblem& problem, const KdaPrefillArgs& args, int64_t sequence, int64_t head,
                       int64_t slot, KdaPrefillCarry<Real, Act>* carry) {
  if (kda_prefill_known(args, sequence)) {
    kda::load_window(kda_prefill_history<Act>(problem, args, slot, head), &carry->window);
    kda::load_state(kda_prefill_state(problem, args, slot, head), problem.state, &carry->state);
  } else {
    carry->window = {};
    carry->state.assign(static_cast<size_t>(kda::kDim * kda::kDim), Real{0});
  }
}

template <class Real, class Act>
void kda_prefill_reference(const KdaPrefillProblem& problem, const KdaPrefillArgs& args, int64_t row, int64_t head,
                           KdaPrefillCarry<Real, Act>* carry, kda::TokenResult<Real>* result) {
  kda::reference_token(kda_prefill_weights(problem, args, head), kda_prefill_token<Act>(problem, args, row, head),
                       &carry->window, carry->state.data(), result);
}

#define SILT_INSTANTIATE(Real, Act)                                                                           \
  template void kda_prefill_start(const KdaPrefillProblem&, const KdaPrefillArgs&, int64_t, int64_t, int64_t, \
                                  KdaPrefillCarry<Real, Act>*);                                               \
  template void kda_prefill_reference(const KdaPrefillProblem&, const KdaPrefillArgs&, int64_t, int64_t,      \
                                      KdaPrefillCarry<Real, Act>*, kda::TokenResult<Real>*)
SILT_INSTANTIATE(float, bf16);
SILT_INSTANTIATE(float, float);
SILT_INSTANTIATE(double, bf16);
SILT_INSTANTIATE(double, float);
#undef SILT_INSTANTIATE

}  // namespace silt
