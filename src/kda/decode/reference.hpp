// The plain reference of kda_decode. `Real` is float (the kernel cpu_reference) or double (the oracle of every test).
#pragma once

#include <vector>

#include "kda/decode/problem.hpp"
#include "kda/shared/reference.hpp"

namespace silt {

/// One row and head after its step; the stored state and history of the arguments are not changed.
template <class Real, class Act>
struct KdaDecodeResult {
  kda::TokenResult<Real> token;
  std::vector<Real> state;  ///< [128 (V), 128 (K)], before its rounding to the stored type
  kda::Window<Act> window;  ///< the new history
};

/// Arguments in host memory; `row` is live, `slot` its slot.
template <class Real, class Act>
void kda_decode_reference(const KdaDecodeProblem& problem, const KdaDecodeArgs& args, int64_t row, int64_t head,
                          int64_t slot, KdaDecodeResult<Real, Act>* result);

}  // namespace silt
