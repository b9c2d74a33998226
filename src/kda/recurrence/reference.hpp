// The plain reference of kda_recurrence. `Real` is float (the kernel cpu_reference) or double (the oracle of every
// test).
#pragma once

#include "kda/recurrence/problem.hpp"
#include "kda/shared/reference.hpp"

namespace silt {

inline int64_t kda_recurrence_index(const KdaRecurrenceArgs& args, int64_t sequence) {
  return static_cast<const int32_t*>(args.state_indices.data)[sequence];
}

/// Gate parameters of a head; there is no convolution and no output norm.
inline kda::HeadWeights kda_recurrence_weights(const KdaRecurrenceProblem& problem, const KdaRecurrenceArgs& args,
                                               int64_t head) {
  kda::HeadWeights weights;
  weights.gate = problem.gate;
  weights.lower_bound = problem.lower_bound;
  weights.A_log = static_cast<const float*>(args.A_log.data)[head];
  weights.dt_bias = static_cast<const float*>(args.dt_bias.data) + head * kda::kDim;
  return weights;
}

/// [128 (V), 128 (K)] of fp32 or bf16.
inline void* kda_recurrence_state(const KdaRecurrenceProblem& problem, const KdaRecurrenceArgs& args, int64_t slot,
                                  int64_t head) {
  const int64_t at = slot * problem.state_slot_stride + head * kda::kDim * kda::kDim;
  return static_cast<std::byte*>(args.state.data) + at * static_cast<int64_t>(size_of(problem.state));
}

/// One token of one head on `state`. Arguments in host memory; nothing of them is changed.
template <class Real>
void kda_recurrence_reference(const KdaRecurrenceProblem& problem, const KdaRecurrenceArgs& args, int64_t row,
                              int64_t head, Real* state, kda::TokenResult<Real>* result);

}  // namespace silt
