// What the references of this room have in common: plain, left to right.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "silt/dtype.hpp"

namespace silt::attn_res_maths {

template <class Act>
Act round_to(float value) {
  if constexpr (std::is_same_v<Act, bf16>) {
    return to_bf16(value);
  } else {
    return value;
  }
}

/// 1 / sqrt(sum / d + eps); 0 where the sum leaves the fp32 range (contract.md, overflow).
template <class Real>
Real inverse_rms(Real sum, int64_t d, Real eps) {
  if (sum > static_cast<Real>(std::numeric_limits<float>::max())) return 0;
  return 1 / std::sqrt(sum / static_cast<Real>(d) + eps);
}

template <class Real>
struct Logit {
  Real value = 0;
  Real spread = 0;  ///< sum|v*w| * rsqrt(mean(v^2) + eps): what rounding errors of the logit scale with
};

template <class Real, class Act>
Logit<Real> logit_of(const Act* source, const bf16* norm_weight, const bf16* qk_weight, int64_t d, Real eps) {
  Real dot = 0;
  Real magnitude = 0;
  Real squares = 0;
  for (int64_t c = 0; c < d; ++c) {
    const Real w = static_cast<Real>(to_float(norm_weight[c])) * static_cast<Real>(to_float(qk_weight[c]));
    const Real v = static_cast<Real>(to_float(source[c]));
    dot += v * w;
    magnitude += std::abs(v * w);
    squares += v * v;
  }
  const Real r = inverse_rms(squares, d, eps);
  return {dot * r, magnitude * r};
}

}  // namespace silt::attn_res_maths
