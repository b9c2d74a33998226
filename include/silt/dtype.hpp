// Element types of tensors.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace silt {

enum class DType : int32_t { bf16 = 1, f32 = 2, i32 = 3 };

constexpr size_t size_of(DType type) { return type == DType::bf16 ? 2 : 4; }

constexpr std::string_view to_string(DType type) {
  switch (type) {
    case DType::bf16:
      return "bf16";
    case DType::f32:
      return "f32";
    case DType::i32:
      return "i32";
  }
  return "unknown";
}

/// The upper 16 bits of an IEEE single: 1 sign, 8 exponent, 7 mantissa bits.
struct bf16 {
  uint16_t bits = 0;
  friend constexpr bool operator==(bf16, bf16) = default;
};

constexpr float to_float(bf16 value) { return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16); }
constexpr float to_float(float value) { return value; }

/// Rounds to nearest, ties to even. A NaN stays a NaN (made quiet), overflow becomes infinity.
constexpr bf16 to_bf16(float value) {
  const uint32_t u = std::bit_cast<uint32_t>(value);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((u >> 16) | 0x40u)};
  return {static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<bf16>() {
  return DType::bf16;
}
template <>
constexpr DType dtype_of<float>() {
  return DType::f32;
}
template <>
constexpr DType dtype_of<int32_t>() {
  return DType::i32;
}

}  // namespace silt
