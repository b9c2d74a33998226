// Device vocabulary of the AMD kernels. One source of a kernel has two readers: the device compiler (amdgcn.hpp) and
// the host compiler (shim/wave64.hpp), which makes a stand-in of the device out of the same words. A kernel names no
// builtin and no address space, and writes every fused multiply-add itself (contraction is off), so that both give the
// same sums.
#pragma once

#if defined(__AMDGCN__)
#include "gpu/hip/amdgcn.hpp"
#else
#include "gpu/hip/shim/wave64.hpp"
#endif

namespace silt::hip {

constexpr uint32_t kWaveLanes = 64;
constexpr float kLog2E = 1.4426950408889634F;
constexpr float kLn2 = 0.6931471805599453F;

// ---- bf16: pairs in a word, low half first

SILT_DEVICE float low_bf16(uint32_t pair) { return real(pair << 16); }
SILT_DEVICE float high_bf16(uint32_t pair) { return real(pair & 0xffff0000u); }
SILT_DEVICE f32x2 widen(uint32_t pair) { return f32x2{low_bf16(pair), high_bf16(pair)}; }

/// Two neighbours: one access where kAligned (4 bytes bf16, 8 bytes fp32), else two.
template <bool kAligned>
SILT_DEVICE uint32_t load_pair(Global<const uint16_t> p) {
  if constexpr (kAligned) {
    return load<uint32_t>(p);
  } else {
    return load<uint16_t>(p) | static_cast<uint32_t>(load<uint16_t>(p + 1)) << 16;
  }
}
template <bool kAligned>
SILT_DEVICE f32x2 load_pair(Global<const float> p) {
  if constexpr (kAligned) {
    return load<f32x2>(p);
  } else {
    return f32x2{load<float>(p), load<float>(p + 1)};
  }
}
template <bool kAligned>
SILT_DEVICE void store_pair(Global<uint16_t> p, uint32_t pair) {
  if constexpr (kAligned) {
    store(p, pair);
  } else {
    store(p, static_cast<uint16_t>(pair));
    store(p + 1, static_cast<uint16_t>(pair >> 16));
  }
}

// ---- sums

/// Over rows of 16 lanes, all of which end with the same bits.
SILT_DEVICE float sum16(float v) {
  v += rotate16<8>(v);
  v += rotate16<4>(v);
  v += rotate16<2>(v);
  v += rotate16<1>(v);
  return v;
}
/// Over the wave, in its last lane; the others have partial sums.
SILT_DEVICE float sum64_last(float v) {
  v = sum16(v);
  v += carry16(v);
  v += carry32(v);
  return v;
}
/// Largest over rows of 16 lanes; a NaN is passed over.
SILT_DEVICE float max16(float v) {
  v = max1(v, rotate16<8>(v));
  v = max1(v, rotate16<4>(v));
  v = max1(v, rotate16<2>(v));
  return max1(v, rotate16<1>(v));
}
SILT_DEVICE f32x4 splat(float v) { return f32x4{v, v, v, v}; }
/// a.c + b.d in four partial sums: two chains of packed multiply-adds.
SILT_DEVICE float dot8(f32x4 a, f32x4 b, f32x4 c, f32x4 d) {
  const f32x4 t = fma4(b, d, a * c);
  return (t[0] + t[2]) + (t[1] + t[3]);
}

// ---- functions

SILT_DEVICE float fast_exp(float v) { return fast_exp2(v * kLog2E); }
SILT_DEVICE float fast_sigmoid(float v) { return fast_reciprocal(1.0F + fast_exp2(v * -kLog2E)); }
SILT_DEVICE float silu(float v) { return v * fast_sigmoid(v); }
/// log(1 + exp(v)), linear above 20. Small values keep their relative accuracy, since exp(A_log) of several hundred
/// multiplies them: below t = exp(v) = 1/4 it is 2*atanh(s), s = t/(2 + t) < 1/9, by its series (the next term is below
/// 2^-28 of the sum), which needs no logarithm close to 1.
SILT_DEVICE float softplus(float v) {
  const float t = fast_exp(v);
  const float s = t * fast_reciprocal(2.0F + t);
  const float s2 = s * s;
  const float series = fma1(s2, fma1(s2, fma1(s2, fma1(s2, 1.0F / 9, 1.0F / 7), 1.0F / 5), 1.0F / 3), 1.0F);
  const float curve = t <= 0.25F ? 2.0F * s * series : fast_log2(1.0F + t) * kLn2;
  return v > 20.0F ? v : curve;
}

}  // namespace silt::hip
