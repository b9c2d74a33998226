// What: kda_decode as its contract reads; the maths of a head is kda/shared/reference.cpp.
#include "kda/decode/reference.hpp"

#include "kda/decode/rows.hpp"

namespace silt {

template <class Real, class Act>
void kda_decode_reference(const KdaDecodeProblem& problem, const KdaDecodeArgs& args, int64_t row, int64_t head,
                          int64_t slot, KdaDecodeResult<Real, Act>* result) {
  kda::load_window(kda_decode_history<Act>(problem, args, slot, head), &result->window);
  kda::load_state(kda_decode_state(problem, args, slot, head), problem.state, &result->state);
  kda::reference_token(kda_decode_weights(problem, args, head), kda_decode_token<Act>(problem, args, row, head),
                       &result->window, result->state.data(), &result->token);
}

template void kda_decode_reference(const KdaDecodeProblem&, const KdaDecodeArgs&, int64_t, int64_t, int64_t,
                                   KdaDecodeResult<float, bf16>*);
template void kda_decode_reference(const KdaDecodeProblem&, const KdaDecodeArgs&, int64_t, int64_t, int64_t,
                                   KdaDecodeResult<float, float>*);
template void kda_decode_reference(const KdaDecodeProblem&, const KdaDecodeArgs&, int64_t, int64_t, int64_t,
                                   KdaDecodeResult<double, bf16>*);
template void kda_decode_reference(const KdaDecodeProblem&, const KdaDecodeArgs&, int64_t, int64_t, int64_t,
                                   KdaDecodeResult<double, float>*);

}  // namespace silt
