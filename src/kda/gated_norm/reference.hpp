// The plain reference of rms_norm_gated. `Real` is float (the kernel cpu_reference) or double (the oracle of every
// test).
#pragma once

#include "kda/gated_norm/problem.hpp"
#include "kda/shared/reference.hpp"

namespace silt {

/// A row's element offset in a tensor of this row stride.
inline int64_t rms_norm_gated_at(int64_t row_stride, int64_t row, int64_t head) {
  return row * row_stride + head * kda::kDim;
}

/// One head of one row before its rounding. Arguments in host memory.
template <class Real>
kda::HeadVector<Real> rms_norm_gated_reference(const RmsNormGatedProblem& problem, const RmsNormGatedArgs& args,
                                               int64_t row, int64_t head);

}  // namespace silt
