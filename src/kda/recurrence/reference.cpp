// What: kda_recurrence as its contract reads; the maths of a head is kda/shared/reference.cpp.
#include "kda/recurrence/reference.hpp"

namespace silt {
namespace {

template <class Act, class Real>
void step(const KdaRecurrenceProblem& p, const KdaRecurrenceArgs& args, int64_t row, int64_t head, Real* state,
          kda::TokenResult<Real>* result) {
  kda::reference_step(kda_recurrence_weights(p, args, head),
                      static_cast<const Act*>(args.raw_gate.data) + row * p.gate_stride + head * kda::kDim,
                      static_cast<const Act*>(args.raw_beta.data) + row * p.beta_stride + head, state, result);
}

}  // namespace

template <class Real>
void kda_recurrence_reference(const KdaRecurrenceProblem& problem, const KdaRecurrenceArgs& args, int64_t row,
                              int64_t head, Real* state, kda::TokenResult<Real>* result) {
  const int64_t first = head * kda::kDim;
  result->z[0] = kda::load_head<Real>(args.q.data, problem.qkv, row * problem.q_stride + first);
  result->z[1] = kda::load_head<Real>(args.k.data, problem.qkv, row * problem.k_stride + first);
  result->z[2] = kda::load_head<Real>(args.v.data, problem.qkv, row * problem.v_stride + first);
  if (problem.dtype == DType::bf16) {
    step<bf16>(problem, args, row, head, state, result);
  } else {
    step<float>(problem, args, row, head, state, result);
  }
}

template void kda_recurrence_reference(const KdaRecurrenceProblem&, const KdaRecurrenceArgs&, int64_t, int64_t, float*,
                                       kda::TokenResult<float>*);
template void kda_recurrence_reference(const KdaRecurrenceProblem&, const KdaRecurrenceArgs&, int64_t, int64_t, double*,
                                       kda::TokenResult<double>*);

}  // namespace silt
