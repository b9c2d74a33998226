// MXFP4 weights as compressed-tensors packs them: two E2M1 values a byte, the low nibble is the even column; one E8M0
// scale byte, 2^(s - 127), per 32 columns of a row.
#pragma once

#include <cstdint>
#include <span>

#include "silt/dtype.hpp"

namespace silt {

constexpr int64_t kMxfp4Group = 32;
/// The largest scale byte whose product with 6, the largest value, is finite; 255 is the format's NaN.
constexpr uint8_t kMostMxfp4Scale = 252;

/// Sign, two exponent bits, one mantissa bit: 0, 0.5, 1, 1.5, 2, 3, 4, 6.
constexpr float mxfp4_value(uint8_t nibble) {
  constexpr float kValues[] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  const float magnitude = kValues[nibble & 7U];
  return (nibble & 8U) != 0 ? -magnitude : magnitude;
}

/// One row: `columns` / 2 packed bytes and `columns` / 32 scales. Every value is exact in bf16 and in fp32.
void expand_mxfp4_row(std::span<const uint8_t> packed, std::span<const uint8_t> scales, bf16* row);
void expand_mxfp4_row(std::span<const uint8_t> packed, std::span<const uint8_t> scales, float* row);

}  // namespace silt
