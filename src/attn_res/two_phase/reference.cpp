// What: attn_res_partials and attn_res_merge as their contract reads, in plain loops; no SIMD, no threads.
// Rounding: p is rounded to the activation type; everything else stays in Real. Sums run left to right.
#include "attn_res/two_phase/reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attn_res/reference_maths.hpp"

namespace silt {
namespace {

/// An accumulator that leaves the fp32 range is infinite (contract.md, extremes).
template <class Real>
Real within_float(Real value) {
  if (std::abs(value) <= static_cast<Real>(std::numeric_limits<float>::max())) return value;
  return value * std::numeric_limits<Real>::infinity();
}

/// The larger one; NaN where one of them is.
template <class Real>
Real larger(Real a, Real b) {
  if (std::isnan(a)) return a;
  return a > b ? a : b;
}

}  // namespace

template <class Real, class Act>
void attn_res_partials_reference(const AttnResPartialsRow<Act>& row, AttnResPartialsResult<Real>* result) {
  const auto d = static_cast<size_t>(row.d);
  std::vector<Real> weights;
  result->logit_spread = 0;
  for (const Act* block : row.blocks) {
    const auto logit =
        attn_res_maths::logit_of<Real>(block, row.norm_weight, row.qk_weight, row.d, static_cast<Real>(row.eps));
    weights.push_back(logit.value);
    result->logit_spread = std::max(result->logit_spread, logit.spread);
  }
  result->largest = weights[0];
  for (const Real logit : weights) result->largest = larger(result->largest, logit);
  result->denominator = 0;
  for (Real& weight : weights) {
    weight = std::exp(weight - result->largest);
    result->denominator += weight;
  }
  result->mix.assign(d, 0);
  result->magnitude.assign(d, 0);
  for (size_t c = 0; c < d; ++c) {
    for (size_t i = 0; i < weights.size(); ++i) {
      const Real v = static_cast<Real>(to_float(row.blocks[i][c]));
      result->mix[c] += weights[i] * v;
      result->magnitude[c] += weights[i] * std::abs(v);
    }
    result->mix[c] = within_float(result->mix[c]);
  }
}

template <class Real, class Act>
void attn_res_merge_reference(const AttnResMergeRow<Act>& row, AttnResMergeResult<Real, Act>* result) {
  const auto d = static_cast<size_t>(row.d);
  result->prefix.resize(d);
  for (size_t c = 0; c < d; ++c) {
    const float p = to_float(row.prefix[c]);
    result->prefix[c] =
        row.delta == nullptr ? row.prefix[c] : attn_res_maths::round_to<Act>(p + to_float(row.delta[c]));
  }
  const auto logit = attn_res_maths::logit_of<Real>(result->prefix.data(), row.norm_weight, row.qk_weight, row.d,
                                                    static_cast<Real>(row.eps));
  result->logit_spread = logit.spread;
  const Real bank_logit = static_cast<Real>(row.largest);
  const Real largest = larger(logit.value, bank_logit);
  const Real bank = std::exp(bank_logit - largest);
  const Real prefix = std::exp(logit.value - largest);
  const Real denominator = bank * static_cast<Real>(row.denominator) + prefix;
  result->bank_weight = bank / denominator;
  result->prefix_weight = prefix / denominator;

  result->mix.assign(d, 0);
  Real squares = 0;
  for (size_t c = 0; c < d; ++c) {
    const Real mix = result->bank_weight * static_cast<Real>(row.mix[c]) +
                     result->prefix_weight * static_cast<Real>(to_float(result->prefix[c]));
    result->mix[c] = mix;
    squares += mix * mix;
  }
  result->scale = 1;
  result->output = result->mix;
  if (row.output_norm_weight == nullptr) return;
  result->scale = attn_res_maths::inverse_rms(squares, row.d, static_cast<Real>(row.output_norm_eps));
  for (size_t c = 0; c < d; ++c) {
    result->output[c] = result->mix[c] * result->scale * static_cast<Real>(to_float(row.output_norm_weight[c]));
  }
}

template void attn_res_partials_reference(const AttnResPartialsRow<bf16>&, AttnResPartialsResult<float>*);
template void attn_res_partials_reference(const AttnResPartialsRow<bf16>&, AttnResPartialsResult<double>*);
template void attn_res_partials_reference(const AttnResPartialsRow<float>&, AttnResPartialsResult<float>*);
template void attn_res_partials_reference(const AttnResPartialsRow<float>&, AttnResPartialsResult<double>*);
template void attn_res_merge_reference(const AttnResMergeRow<bf16>&, AttnResMergeResult<float, bf16>*);
template void attn_res_merge_reference(const AttnResMergeRow<bf16>&, AttnResMergeResult<double, bf16>*);
template void attn_res_merge_reference(const AttnResMergeRow<float>&, AttnResMergeResult<float, float>*);
template void attn_res_merge_reference(const AttnResMergeRow<float>&, AttnResMergeResult<double, float>*);

}  // namespace silt
