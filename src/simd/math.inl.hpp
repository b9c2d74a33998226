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
constexpr float kMagic = 0x1.8p23F;  // adding it leaves the rounded integer in the low bits of the sum

#if HWY_TARGET == HWY_AVX3
/// p * 2^n for n in [-152, 129], rounded once; `shifted` is n + kMagic.
SILT_INLINE FloatVector scale(FloatVector p, FloatVector n, FloatVector /*shifted*/) {
  p.raw = _mm512_scalef_ps(p.raw, n.raw);
  return p;
}
#else
using IntTag = hn::Rebind<int32_t, WordTag>;
/// 2^n as a factor, n in [-126, 127].
SILT_INLINE FloatVector power_of_two(hn::Vec<IntTag> n) {
  return hn::BitCast(FloatTag(), hn::ShiftLeft<23>(hn::Add(n, hn::Set(IntTag(), 127))));
}
/// p * 2^n for n in [-152, 129], rounded once; `shifted` is n + kMagic. Two factors, because 2^n alone leaves the range
/// before the product does.
SILT_INLINE FloatVector scale(FloatVector p, FloatVector /*n*/, FloatVector shifted) {
  const IntTag ints;
  const auto whole = hn::Sub(hn::BitCast(ints, shifted), hn::Set(ints, std::bit_cast<int32_t>(kMagic)));
  const auto half = hn::ShiftRight<1>(whole);
  return hn::Mul(hn::Mul(p, power_of_two(half)), power_of_two(hn::Sub(whole, half)));
}
#endif
}  // namespace detail

/// e^x = 2^n * e^r with |r| <= ln2 / 2 and a polynomial of degree 6 (its own error: 1.1e-8). Above 88.7 infinity, below
/// -103.3 zero.
template <int kCount>
SILT_INLINE Group<kCount> exp(Group<kCount> x) {
  const Group<kCount> c = at_most(89.0F, at_least(-105.0F, x));
  const Group<kCount> shifted = multiply_add(c, broadcast<kCount>(0x1.715476p0F), broadcast<kCount>(detail::kMagic));
  const Group<kCount> n = subtract(shifted, broadcast<kCount>(detail::kMagic));
  // ln2 in two parts; the first has zeros at the end, so that n times it is exact.
  Group<kCount> r = multiply_subtract_from(n, broadcast<kCount>(0x1.62e4p-1F), c);
  r = multiply_subtract_from(n, broadcast<kCount>(0x1.7f7d1cp-20F), r);
  Group<kCount> p = broadcast<kCount>(0x1.6d117cp-10F);
  p = multiply_add(p, r, broadcast<kCount>(0x1.120be2p-7F));
  p = multiply_add(p, r, broadcast<kCount>(0x1.555518p-5F));
  p = multiply_add(p, r, broadcast<kCount>(0x1.5554dcp-3F));
  p = multiply_add(p, r, broadcast<kCount>(0.5F));
  p = multiply_add(p, multiply(r, r), r);
  p = add(p, broadcast<kCount>(1.0F));
  SILT_EACH_OF(kCount) p.part[i] = detail::scale(p.part[i], n.part[i], shifted.part[i]);
  return p;
}

/// 1 / (1 + e^-x)
template <int kCount>
SILT_INLINE Group<kCount> sigmoid(Group<kCount> x) {
  return divide(broadcast<kCount>(1.0F), add(broadcast<kCount>(1.0F), exp(negate(x))));
}

/// x * sigmoid(x); -inf gives NaN, as in the formula.
template <int kCount>
SILT_INLINE Group<kCount> silu(Group<kCount> x) {
  return divide(x, add(broadcast<kCount>(1.0F), exp(negate(x))));
}

/// log(1 + y) for y in [0, 1], with relative accuracy down to the smallest y.
template <int kCount>
SILT_INLINE Group<kCount> log1p_unit(Group<kCount> y) {
  // Above sqrt(2) - 1 take one factor of two out: log(1 + y) = ln2 + log(1 + (y - 1) / 2).
  Group<kCount> f = y;
  Group<kCount> offset = broadcast<kCount>(0.0F);
  SILT_EACH_OF(kCount) {
    const auto upper = hn::Gt(y.part[i], hn::Set(FloatTag(), 0x1.a8279ap-2F));
    const auto halved = hn::Mul(hn::Sub(y.part[i], hn::Set(FloatTag(), 1.0F)), hn::Set(FloatTag(), 0.5F));
    f.part[i] = hn::IfThenElse(upper, halved, y.part[i]);
    offset.part[i] = hn::IfThenElseZero(upper, hn::Set(FloatTag(), 0x1.62e43p-1F));
  }
  // log(1 + f) = 2 atanh(s), s = f / (2 + f), |s| <= 0.172: odd series up to s^9.
  const Group<kCount> s = divide(f, add(broadcast<kCount>(2.0F), f));
  const Group<kCount> z = multiply(s, s);
  Group<kCount> p = broadcast<kCount>(2.0F / 9);
  p = multiply_add(p, z, broadcast<kCount>(2.0F / 7));
  p = multiply_add(p, z, broadcast<kCount>(2.0F / 5));
  p = multiply_add(p, z, broadcast<kCount>(2.0F / 3));
  p = multiply(p, z);
  return add(offset, multiply_add(s, p, add(s, s)));
}

/// log(1 + e^x) = max(x, 0) + log(1 + e^-|x|); exactly x above 20, where the second term is below half an ulp.
template <int kCount>
SILT_INLINE Group<kCount> softplus(Group<kCount> x) {
  const Group<kCount> r = add(at_least(0.0F, x), log1p_unit(exp(negate(magnitude(x)))));
  Group<kCount> linear = x;
  SILT_EACH_OF(kCount) {
    const auto above = hn::Gt(x.part[i], hn::Set(FloatTag(), 20.0F));
    linear.part[i] = hn::IfThenElse(above, x.part[i], r.part[i]);
  }
  return linear;
}

}  // namespace silt::SILT_SIMD_NAMESPACE
SILT_SIMD_END;
