// The plain reference of kda_prefill. `Real` is float (the kernel cpu_reference) or double (the oracle of every test).
#pragma once

#include <vector>

#include "kda/prefill/problem.hpp"
#include "kda/shared/reference.hpp"

namespace silt {

/// What a head of a sequence carries from token to token.
template <class Real, class Act>
struct KdaPrefillCarry {
  std::vector<Real> state;  ///< [128 (V), 128 (K)], before its rounding to the stored type
  kda::Window<Act> window;
};

/// The start of a sequence: what its slot holds, or zero where it has no initial state. Arguments in host memory.
template <class Real, class Act>
void kda_prefill_start(const KdaPrefillProblem& problem, const KdaPrefillArgs& args, int64_t sequence, int64_t head,
                       int64_t slot, KdaPrefillCarry<Real, Act>* carry);
/// One token; `row` is its row of memory. Nothing of the arguments is changed.
template <class Real, class Act>
void kda_prefill_reference(const KdaPrefillProblem& problem, const KdaPrefillArgs& args, int64_t row, int64_t head,
                           KdaPrefillCarry<Real, Act>* carry, kda::TokenResult<Real>* result);

}  // namespace silt
