// The plain references of attn_res_partials and attn_res_merge. `Real` is float (the kernels cpu_reference) or double
// (the oracle of every test).
#pragma once

#include <vector>

#include "silt/dtype.hpp"

namespace silt {

/// One token and one query. Pointers are to rows of D activations of type Act (bf16 or float).
template <class Act>
struct AttnResPartialsRow {
  int64_t d = 0;
  std::vector<const Act*> blocks;  ///< the nb sources
  const bf16* norm_weight = nullptr;
  const bf16* qk_weight = nullptr;
  float eps = 0;
};

template <class Real>
struct AttnResPartialsResult {
  Real largest = 0;             ///< m
  Real denominator = 0;         ///< s
  std::vector<Real> mix;        ///< unnormalised, before it is rounded
  std::vector<Real> magnitude;  ///< per column: sum of weight * |v|, what errors of the weights scale with
  Real logit_spread = 0;        ///< largest sum|v*w| * rsqrt(mean(v^2) + eps)
};

template <class Real, class Act>
void attn_res_partials_reference(const AttnResPartialsRow<Act>& row, AttnResPartialsResult<Real>* result);

/// One token.
template <class Act>
struct AttnResMergeRow {
  int64_t d = 0;
  const Act* prefix = nullptr;
  const Act* delta = nullptr;  ///< null where absent
  float largest = 0;
  float denominator = 0;
  std::vector<float> mix;  ///< the partial, widened
  const bf16* norm_weight = nullptr;
  const bf16* qk_weight = nullptr;
  const bf16* output_norm_weight = nullptr;  ///< null: no output norm
  float eps = 0;
  float output_norm_eps = 0;
};

template <class Real, class Act>
struct AttnResMergeResult {
  std::vector<Act> prefix;   ///< p, rounded to the activation type
  std::vector<Real> output;  ///< before the last rounding
  std::vector<Real> mix;     ///< before the output norm
  Real bank_weight = 0;      ///< factor of the partial: exp(m - n) / denominator of the whole
  Real prefix_weight = 0;    ///< factor of p
  Real scale = 1;            ///< factor of the output norm, 1 without
  Real logit_spread = 0;     ///< of p
};

template <class Real, class Act>
void attn_res_merge_reference(const AttnResMergeRow<Act>& row, AttnResMergeResult<Real, Act>* result);

}  // namespace silt
