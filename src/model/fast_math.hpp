// exp, sigmoid and tanh as straight-line arithmetic, so that the plain loops around them vectorise. Relative error of
// exp below 2 ulp, of the others below 4 ulp (test_glue measures them against double precision).
#pragma once

#include <bit>
#include <cstdint>

#include "model/on_cpu.hpp"

namespace silt {

/// Saturates at exp(+-86.6); a NaN stays a NaN.
SILT_LOOP float fast_exp(float x) {
  constexpr float kLimit = 86.6F;
  constexpr float kLog2E = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it leaves the nearest integer in the low mantissa bits
  x = x > kLimit ? kLimit : x;
  x = x < -kLimit ? -kLimit : x;
  const float shifted = x * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;  // |r| <= ln(2) / 2
  // Taylor's terms to r^7 leave less than 1e-8 there.
  float p = 1.98412698e-4F;
  p = p * r + 1.38888889e-3F;
  p = p * r + 8.33333333e-3F;
  p = p * r + 4.16666667e-2F;
  p = p * r + 1.66666667e-1F;
  p = p * r + 0.5F;
  p = p * (r * r) + r + 1.0F;
  // n moved to the exponent field; what is above it falls off the top. A product, so that a NaN in p survives.
  return p * std::bit_cast<float>((std::bit_cast<uint32_t>(shifted) << 23U) + 0x3f800000U);
}

SILT_LOOP float fast_sigmoid(float x) { return 1.0F / (1.0F + fast_exp(-x)); }

SILT_LOOP float fast_tanh(float x) {
  const float square = x * x;
  // Near zero 1 - 2 / (e^2x + 1) cancels; the odd series to x^11 is exact to fp32 below 0.3.
  float series = -8.86323552e-3F;
  series = series * square + 2.18694885e-2F;
  series = series * square - 5.39682540e-2F;
  series = series * square + 1.33333333e-1F;
  series = series * square - 3.33333333e-1F;
  const float near = x + x * (square * series);
  const float far = 1.0F - 2.0F / (fast_exp(2.0F * x) + 1.0F);
  return square < 0.09F ? near : far;
}

}  // namespace silt
