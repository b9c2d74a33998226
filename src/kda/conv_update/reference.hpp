// The plain reference of causal_conv1d_update. `Real` is float (the kernel cpu_reference) or double (the oracle of
// every test).
#pragma once

#include <array>
#include <vector>

#include "kda/conv_update/problem.hpp"
#include "kda/shared/reference.hpp"

namespace silt {

/// One channel of one sequence.
template <class Real, class Act>
struct CausalConv1dUpdateResult {
  std::vector<Real> z;                                            ///< per token, before rounding
  std::vector<Real> magnitude;                                    ///< sum of |terms|
  std::array<Act, static_cast<size_t>(kda::kHistory)> history{};  ///< the new one
};

template <class Act>
kda::HistoryView<Act> causal_conv1d_update_history(const CausalConv1dUpdateProblem& problem,
                                                   const CausalConv1dUpdateArgs& args, int64_t slot) {
  return {static_cast<Act*>(args.conv_state.data) + slot * problem.conv_slot_stride, problem.layout, problem.c, 0};
}

inline int64_t causal_conv1d_update_index(const CausalConv1dUpdateArgs& args, int64_t row) {
  return static_cast<const int32_t*>(args.state_indices.data)[row];
}

/// Arguments in host memory; `row` is live, `slot` its slot. Nothing of the arguments is changed.
template <class Real, class Act>
void causal_conv1d_update_reference(const CausalConv1dUpdateProblem& problem, const CausalConv1dUpdateArgs& args,
                                    int64_t row, int64_t channel, int64_t slot,
                                    CausalConv1dUpdateResult<Real, Act>* result);

}  // namespace silt
