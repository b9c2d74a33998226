#include "model/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/status.hpp"

namespace silt {
namespace {

/// splitmix64: one step of the state to one number.
uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}
constexpr uint64_t kStep = 0x9e3779b97f4a7c15U;

}  // namespace

Status check_sampling(const Sampling& sampling) {
  if (!(std::isfinite(sampling.temperature) && sampling.temperature >= 0)) {
    return invalid("sampling: temperature: has {}, needs a finite number >= 0", sampling.temperature);
  }
  if (sampling.top_k < 0) return invalid("sampling: top_k: has {}, needs 0 (all) or more", sampling.top_k);
  if (!(sampling.top_p > 0 && sampling.top_p <= 1)) {
    return invalid("sampling: top_p: has {}, needs a number in (0, 1]", sampling.top_p);
  }
  return {};
}

Sampler::Sampler(const Sampling& sampling, uint64_t stream)
    : sampling_(sampling), state_(mix(sampling.seed + kStep) ^ mix(mix(stream + 1) + kStep)) {}

double Sampler::uniform() {
  state_ += kStep;
  return static_cast<double>(mix(state_) >> 11U) * 0x1p-53;
}

Status Sampler::take(std::span<const float> logits, int32_t* token) {
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]))
      return failed(StatusCode::device_error, "sampling: logits: token {} has NaN, needs a number", i);
  }
  const auto best = static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  *token = static_cast<int32_t>(best);
  const float largest = logits[best];
  if (sampling_.temperature == 0 || !std::isfinite(largest)) return {};

  order_.resize(logits.size());
  std::iota(order_.begin(), order_.end(), 0);
  const auto better = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)];
    const float y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  auto count = order_.size();
  if (sampling_.top_k > 0) count = std::min(count, static_cast<size_t>(sampling_.top_k));
  std::partial_sort(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(count), order_.end(), better);
  weights_.resize(count);
  double sum = 0;
  for (size_t i = 0; i < count; ++i) {
    const double logit = static_cast<double>(logits[static_cast<size_t>(order_[i])]) - static_cast<double>(largest);
    weights_[i] = std::exp(logit / static_cast<double>(sampling_.temperature));
    sum += weights_[i];
  }
  double kept = 0;
  size_t nucleus = 0;
  while (nucleus < count && (nucleus == 0 || kept < static_cast<double>(sampling_.top_p) * sum))
    kept += weights_[nucleus++];
  double draw = uniform() * kept;
  size_t pick = 0;
  while (pick + 1 < nucleus && draw >= weights_[pick]) draw -= weights_[pick++];
  *token = order_[pick];
  return {};
}

}  // namespace silt
