// The plain reference of attn_res. `Real` is float (the kernel cpu_reference) or double (the oracle of every test).
#pragma once

#include <vector>

#include "silt/dtype.hpp"

namespace silt {

/// One token. Pointers are to rows of D activations of type Act (bf16 or float).
template <class Act>
struct AttnResRow {
  int64_t d = 0;
  const Act* prefix = nullptr;
  const Act* delta = nullptr;         ///< null where absent
  std::vector<const Act*> blocks;     ///< the nb sources of the bank
  const bf16* norm_weight = nullptr;  ///< null where there are no blocks
  const bf16* qk_weight = nullptr;
  const bf16* output_norm_weight = nullptr;  ///< null: no output norm
  float eps = 0;
  float output_norm_eps = 0;
};

template <class Real, class Act>
struct AttnResResult {
  std::vector<Act> prefix;    ///< p, rounded to the activation type
  std::vector<Real> output;   ///< before the last rounding
  std::vector<Real> mix;      ///< before the output norm
  std::vector<Real> weights;  ///< softmax, nb + 1
  Real scale = 1;             ///< factor of the output norm, 1 without
  Real logit_spread = 0;      ///< largest sum|v*w| * rsqrt(mean(v^2) + eps): what rounding errors of a logit scale with
};

template <class Real, class Act>
void attn_res_reference(const AttnResRow<Act>& row, AttnResResult<Real, Act>* result);

}  // namespace silt
