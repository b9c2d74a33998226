// Four floats at a time (cpu_width.hpp), and exp, sigmoid, SiLU and softplus on them, without branches or calls. A NaN
// stays a NaN. Relative error below 5 * 2^-24 (test_kda_shared.cpp); results below 1.2e-38 may be flushed.
//
// GCC 12 leaves both a sum in an array of partial sums and a clamp by comparison scalar (measured: 23 us for a head's
// state instead of 5), so the vector is spelled out; every target of GCC and clang has one of this width.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "kda/shared/cpu_width.hpp"

namespace silt::kda::SILT_KDA_CPU {

#ifdef SILT_SCALAR
using Quad = float;
using QuadBits = uint32_t;
using QuadInts = int32_t;

inline Quad all(float value) { return value; }
inline float first(Quad x) { return x; }
/// The sum of a Quad's elements.
inline float across(Quad x) { return x; }
#else
using Quad = float __attribute__((vector_size(16)));
using QuadBits = uint32_t __attribute__((vector_size(16)));
using QuadInts = int32_t __attribute__((vector_size(16)));

inline Quad all(float value) { return Quad{value, value, value, value}; }
inline float first(Quad x) { return x[0]; }
/// The sum of a Quad's elements.
inline float across(Quad x) { return (x[0] + x[2]) + (x[1] + x[3]); }
#endif

inline Quad load(const float* from) {
  Quad quad;
  std::memcpy(&quad, from, sizeof quad);
  return quad;
}
inline void store(Quad quad, float* to) { std::memcpy(to, &quad, sizeof quad); }
inline Quad exp(Quad x) {
  // Beyond these the result is infinite or 0. The comparisons are false for a NaN, which passes.
  constexpr float kHigh = 89.0F;
  constexpr float kLow = -104.0F;
  constexpr float kLog2e = 0x1.715476p+0F;
  constexpr float kRound = 0x1.8p23F;     // adding it leaves the nearest integer in the low bits
  constexpr float kLn2High = 0x1.63p-1F;  // 9 bits: n * kLn2High is exact
  constexpr float kLn2Low = -0x1.bd0106p-13F;
  x = x > kHigh ? all(kHigh) : x;
  x = x < kLow ? all(kLow) : x;
  const Quad shifted = x * kLog2e + kRound;
  const Quad n = shifted - kRound;
  const Quad r = x - n * kLn2High - n * kLn2Low;
  // Taylor; |r| <= 0.35, so the first term left out is 5e-9.
  Quad p = all(1.0F / 5040);
  p = p * r + 1.0F / 720;
  p = p * r + 1.0F / 120;
  p = p * r + 1.0F / 24;
  p = p * r + 1.0F / 6;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  // 2^n in two factors: n reaches -150 and 128. Unsigned, because the n of a NaN is any number.
  const QuadBits bits = std::bit_cast<QuadBits>(shifted) - std::bit_cast<uint32_t>(kRound);
  const auto half = std::bit_cast<QuadBits>(std::bit_cast<QuadInts>(bits) >> 1);
  const Quad first = std::bit_cast<Quad>((half + 127) << 23);
  const Quad second = std::bit_cast<Quad>((bits - half + 127) << 23);
  return p * first * second;
}

inline Quad sigmoid(Quad x) { return 1.0F / (1.0F + exp(-x)); }

inline Quad silu(Quad x) { return x * sigmoid(x); }

/// max(x, 0) + log1p(exp(-|x|)): above 17 the second term is lost in the first, which is the linear tail.
inline Quad softplus(Quad x) {
  const Quad t = exp(x > 0.0F ? -x : x);
  // log1p(t) = 2 atanh(s), s = t / (2 + t) <= 1/3; the first term left out is 2/17 * 3^-16 of s.
  const Quad s = t / (2.0F + t);
  const Quad s2 = s * s;
  Quad p = all(2.0F / 15);
  p = p * s2 + 2.0F / 13;
  p = p * s2 + 2.0F / 11;
  p = p * s2 + 2.0F / 9;
  p = p * s2 + 2.0F / 7;
  p = p * s2 + 2.0F / 5;
  p = p * s2 + 2.0F / 3;
  p = p * s2 + 2.0F;
  // The NaN of x comes back through p.
  return (x > 0.0F ? x : all(0.0F)) + s * p;
}

/// Four Quads of partial sums, added by a fixed tree.
struct Lanes {
  Quad quads[4] = {};

  [[nodiscard]] float sum() const { return across((quads[0] + quads[2]) + (quads[1] + quads[3])); }
};
constexpr int64_t kLanes = 4 * kQuad;

}  // namespace silt::kda::SILT_KDA_CPU
