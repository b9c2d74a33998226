// bf16 in registers: two values per 32-bit word, low half first.
#pragma once

#include <cuda_bf16.h>

#include "gpu/config.hpp"

namespace silt::gpu {

SILT_DEVICE float low_bf16(uint32_t pair) { return __uint_as_float(pair << 16); }
SILT_DEVICE float high_bf16(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }
SILT_DEVICE float bf16_to_float(uint16_t bits) { return __uint_as_float(static_cast<uint32_t>(bits) << 16); }

/// Rounds to nearest even.
SILT_DEVICE uint32_t pack_bf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
SILT_DEVICE uint16_t float_to_bf16(float value) { return __bfloat16_as_ushort(__float2bfloat16_rn(value)); }

/// The rounded sum of two pairs. One rounding; the same bits as rounding the fp32 sum: where the exponents are so far
/// apart that the fp32 sum is inexact, both land on the larger operand.
SILT_DEVICE uint32_t add_bf16(uint32_t a, uint32_t b) {
  const __nv_bfloat162 sum =
      __hadd2(*reinterpret_cast<const __nv_bfloat162*>(&a), *reinterpret_cast<const __nv_bfloat162*>(&b));
  return *reinterpret_cast<const uint32_t*>(&sum);
}
SILT_DEVICE uint4 add_bf16(uint4 a, uint4 b) {
  return make_uint4(add_bf16(a.x, b.x), add_bf16(a.y, b.y), add_bf16(a.z, b.z), add_bf16(a.w, b.w));
}

/// The eight values of a 16-byte vector.
SILT_DEVICE void unpack_bf16(uint4 v, float (&f)[8]) {
  const uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    f[2 * i] = low_bf16(words[i]);
    f[2 * i + 1] = high_bf16(words[i]);
  }
}
SILT_DEVICE uint4 pack_bf16(const float (&f)[8]) {
  return make_uint4(pack_bf16(f[0], f[1]), pack_bf16(f[2], f[3]), pack_bf16(f[4], f[5]), pack_bf16(f[6], f[7]));
}

/// The same by byte permutation: the compiler does not see that these values have been unpacked before. It would keep
/// the first fp32 copies alive until the second use, which spills.
SILT_DEVICE void unpack_bf16_again(uint4 v, float (&f)[8]) {
  const uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    f[2 * i] = __uint_as_float(__byte_perm(words[i], 0, 0x1044));
    f[2 * i + 1] = __uint_as_float(__byte_perm(words[i], 0, 0x3244));
  }
}

}  // namespace silt::gpu
