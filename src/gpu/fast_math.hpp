// Special functions of one hardware instruction each. Relative error about 2^-22; denormal results flush to zero. NaN
// stays NaN, infinities map as in the exact function.
#pragma once

#include "gpu/config.hpp"

namespace silt::gpu {

SILT_DEVICE float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
SILT_DEVICE float fast_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
SILT_DEVICE float fast_rsqrt(float x) {
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

constexpr float kLog2E = 1.4426950408889634F;
SILT_DEVICE float fast_exp(float x) { return fast_exp2(x * kLog2E); }
SILT_DEVICE float fast_sigmoid(float x) { return fast_reciprocal(1.0F + fast_exp2(x * -kLog2E)); }

}  // namespace silt::gpu
