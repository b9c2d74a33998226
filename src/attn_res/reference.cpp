// What: attn_res as its contract reads, in plain loops; no SIMD, no threads.
// Rounding: p is rounded to the activation type; everything else stays in Real. Sums run left to right.
#include "attn_res/reference.hpp"

#include <algorithm>
#include <cmath>

#include "attn_res/reference_maths.hpp"

namespace silt {

using attn_res_maths::inverse_rms;
using attn_res_maths::round_to;

template <class Real, class Act>
void attn_res_reference(const AttnResRow<Act>& row, AttnResResult<Real, Act>* result) {
  const auto d = static_cast<size_t>(row.d);
  const auto value = [](const Act* source, size_t c) { return static_cast<Real>(to_float(source[c])); };

  result->prefix.resize(d);
  for (size_t c = 0; c < d; ++c) {
    const float p = to_float(row.prefix[c]);
    result->prefix[c] = row.delta == nullptr ? row.prefix[c] : round_to<Act>(p + to_float(row.delta[c]));
  }
  std::vector<const Act*> sources = row.blocks;
  sources.push_back(result->prefix.data());

  std::vector<Real>& weights = result->weights;
  weights.assign(sources.size(), 1);
  result->logit_spread = 0;
  if (sources.size() > 1) {
    for (size_t i = 0; i < sources.size(); ++i) {
      const auto logit =
          attn_res_maths::logit_of<Real>(sources[i], row.norm_weight, row.qk_weight, row.d, static_cast<Real>(row.eps));
      weights[i] = logit.value;
      result->logit_spread = std::max(result->logit_spread, logit.spread);
    }
    const Real largest = *std::max_element(weights.begin(), weights.end());
    Real sum = 0;
    for (Real& w : weights) {
      w = std::exp(w - largest);
      sum += w;
    }
    for (Real& w : weights) w /= sum;
  }

  result->mix.assign(d, 0);
  Real squares = 0;
  for (size_t c = 0; c < d; ++c) {
    Real mix = 0;
    for (size_t i = 0; i < sources.size(); ++i) mix += weights[i] * value(sources[i], c);
    if (sources.size() == 1) mix = value(sources[0], c);
    result->mix[c] = mix;
    squares += mix * mix;
  }
  result->scale = 1;
  result->output = result->mix;
  if (row.output_norm_weight == nullptr) return;
  result->scale = inverse_rms(squares, row.d, static_cast<Real>(row.output_norm_eps));
  for (size_t c = 0; c < d; ++c) {
    result->output[c] = result->mix[c] * result->scale * static_cast<Real>(to_float(row.output_norm_weight[c]));
  }
}

template void attn_res_reference(const AttnResRow<bf16>&, AttnResResult<float, bf16>*);
template void attn_res_reference(const AttnResRow<bf16>&, AttnResResult<double, bf16>*);
template void attn_res_reference(const AttnResRow<float>&, AttnResResult<float, float>*);
template void attn_res_reference(const AttnResRow<float>&, AttnResResult<double, float>*);

}  // namespace silt
