// exp and what is made of it, on Lanes. Every function passes a NaN on (Highway 1.0.3's Exp returns 0 for NaN, so that
// a sigmoid of NaN would read 1), and is made of fused operations only, so that all targets give the same bits.
//
// Bounds relative to the exact value, in multiples of kFloatEpsilon = 2^-24 (proven over the whole range by test/): exp
// 2, sigmoid 3, softplus 4, silu 3. Values below 1e-29 are within these bounds of 1e-29 absolutely.
#pragma once

#include "simd/lanes.inl.hpp"

SILT_SIMD_BEGIN;
namespace silt::SILT_SIMD_NAMESPACE {

namespace detail {
/// 2^n as a factor, n in [-126, 127], given in the low bits of `words`.
SILT_INLINE FloatVector power_of_two(hn::Vec<hn::Rebind<int32_t, WordTag>> n) {
  const hn::Rebind<int32_t, WordTag> ints;
  return hn::BitCast(FloatTag(), hn::ShiftLeft<23>(hn::Add(n, hn::Set(ints, 127))));
}
}  // namespace detail

/// e^x = 2^n * e^r with |r| <= ln2 / 2 and a polynomial of degree 6 (its own error: 1.1e-8). Above 88.7 infinity, below
/// -103.3 zero.
SILT_INLINE Lanes exp(Lanes x) {
  constexpr float kMagic = 0x1.8p23F;  // adding it leaves the rounded integer in the low bits of the sum
  const hn::Rebind<int32_t, WordTag> ints;
  const Lanes c = at_most(89.0F, at_least(-105.0F, x));
  const Lanes shifted = multiply_add(c, broadcast(0x1.715476p0F), broadcast(kMagic));
  const Lanes n = subtract(shifted, broadcast(kMagic));
  // ln2 in two parts; the first has zeros at the end, so that n times it is exact.
  Lanes r = multiply_subtract_from(n, broadcast(0x1.62e4p-1F), c);
  r = multiply_subtract_from(n, broadcast(0x1.7f7d1cp-20F), r);
  Lanes p = broadcast(0x1.6d117cp-10F);
  p = multiply_add(p, r, broadcast(0x1.120be2p-7F));
  p = multiply_add(p, r, broadcast(0x1.555518p-5F));
  p = multiply_add(p, r, broadcast(0x1.5554dcp-3F));
  p = multiply_add(p, r, broadcast(0.5F));
  p = multiply_add(p, multiply(r, r), r);
  p = add(p, broadcast(1.0F));
  // Two factors, because 2^n alone leaves the range before the product does.
  SILT_EACH_PART {
    const auto whole = hn::Sub(hn::BitCast(ints, shifted.part[i]), hn::Set(ints, std::bit_cast<int32_t>(kMagic)));
    const auto half = hn::ShiftRight<1>(whole);
    p.part[i] = hn::Mul(p.part[i], detail::power_of_two(half));
    p.part[i] = hn::Mul(p.part[i], detail::power_of_two(hn::Sub(whole, half)));
  }
  return p;
}

/// 1 / (1 + e^-x)
SILT_INLINE Lanes sigmoid(Lanes x) { return divide(broadcast(1.0F), add(broadcast(1.0F), exp(negate(x)))); }

/// x * sigmoid(x); -inf gives NaN, as in the formula.
SILT_INLINE Lanes silu(Lanes x) { return divide(x, add(broadcast(1.0F), exp(negate(x)))); }

/// log(1 + y) for y in [0, 1], with relative accuracy down to the smallest y.
SILT_INLINE Lanes log1p_unit(Lanes y) {
  // Above sqrt(2) - 1 take one factor of two out: log(1 + y) = ln2 + log(1 + (y - 1) / 2).
  Lanes f = y;
  Lanes offset = zero();
  SILT_EACH_PART {
    const auto upper = hn::Gt(y.part[i], hn::Set(FloatTag(), 0x1.a8279ap-2F));
    const auto halved = hn::Mul(hn::Sub(y.part[i], hn::Set(FloatTag(), 1.0F)), hn::Set(FloatTag(), 0.5F));
    f.part[i] = hn::IfThenElse(upper, halved, y.part[i]);
    offset.part[i] = hn::IfThenElseZero(upper, hn::Set(FloatTag(), 0x1.62e43p-1F));
  }
  // log(1 + f) = 2 atanh(s), s = f / (2 + f), |s| <= 0.172: odd series up to s^9.
  const Lanes s = divide(f, add(broadcast(2.0F), f));
  const Lanes z = multiply(s, s);
  Lanes p = broadcast(2.0F / 9);
  p = multiply_add(p, z, broadcast(2.0F / 7));
  p = multiply_add(p, z, broadcast(2.0F / 5));
  p = multiply_add(p, z, broadcast(2.0F / 3));
  p = multiply(p, z);
  return add(offset, multiply_add(s, p, add(s, s)));
}

/// log(1 + e^x) = max(x, 0) + log(1 + e^-|x|); exactly x above 20, where the second term is below half an ulp.
SILT_INLINE Lanes softplus(Lanes x) {
  const Lanes r = add(at_least(0.0F, x), log1p_unit(exp(negate(magnitude(x)))));
  Lanes linear = x;
  SILT_EACH_PART {
    const auto above = hn::Gt(x.part[i], hn::Set(FloatTag(), 20.0F));
    linear.part[i] = hn::IfThenElse(above, x.part[i], r.part[i]);
  }
  return linear;
}

}  // namespace silt::SILT_SIMD_NAMESPACE
SILT_SIMD_END;
