// What the tolerances of this room's contracts have in common.
#pragma once

#include <cstdint>
#include <vector>

#include "silt/dtype.hpp"

namespace silt {

/// How far softmax-weighted sums of values no larger than 1 move where the logits are off by `logit_error`
/// (contract.md, tolerance), with eight roundings of the sum itself.
double attn_res_moved(double logit_error);

/// A mixture and what became of it, in double precision.
struct AttnResMixture {
  const std::vector<double>& mix;     ///< before the output norm
  const std::vector<double>& output;  ///< before its rounding
  double scale = 1;                   ///< factor of the output norm
  const bf16* g = nullptr;            ///< weights of the output norm; null: none
};

/// Slack of every output element, given by how much every element of the mixture may be off: through the output norm,
/// the error of an element and that of the norm's factor.
std::vector<double> attn_res_output_slack(const AttnResMixture& exact, const std::vector<double>& mix_error);

/// Whether `got` is the sum of prefix and delta, exactly; CPU workers may flush a denormal sum to zero.
bool attn_res_is_sum(float got, float want);

}  // namespace silt
