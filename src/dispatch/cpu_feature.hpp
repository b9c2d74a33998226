// The predicate that every SIMD kernel starts with.
#pragma once

#include "dispatch/kernel.hpp"

namespace silt {

/// Accepts a CPU that has the instruction set; refuses another one as being of another architecture.
inline Reason needs_cpu_feature(const DeviceFacts& facts, CpuFeature feature) {
  if (facts.has(feature)) return accept();
  switch (feature) {
    case kCpuAvx2:
      return refuse("arch", "no AVX2", "AVX2, FMA and BMI2");
    case kCpuAvx512:
      return refuse("arch", "no AVX-512", "AVX-512 F, BW, CD, DQ and VL");
    case kCpuAvx512Bf16:
      return refuse("arch", "no AVX-512 BF16", "AVX-512 BF16");
    case kCpuNeon:
      return refuse("arch", "no NEON", "NEON");
  }
  return refuse("arch", "unknown", "a known instruction set");
}

}  // namespace silt
