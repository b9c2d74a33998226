// Loads and stores of one, four and sixteen-byte pieces, in assembly so that their order stays that of the source: a
// compiler is free to move a plain load below a dependency wait. bf16 elements are seen as their bits.
#pragma once

#include "gpu/config.hpp"

namespace silt::gpu {

SILT_DEVICE float load(const float* at) {
  float v;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(at) : "memory");
  return v;
}
SILT_DEVICE int32_t load(const int32_t* at) {
  int32_t v;
  asm volatile("ld.global.s32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
  return v;
}
SILT_DEVICE uint16_t load(const uint16_t* at) {
  uint16_t v;
  asm volatile("ld.global.u16 %0, [%1];" : "=h"(v) : "l"(at) : "memory");
  return v;
}

/// Four neighbours: one access where kAligned (to 16 bytes fp32, 8 bytes bf16), else four.
template <bool kAligned>
SILT_DEVICE float4 load_4(const float* at) {
  if constexpr (kAligned) {
    float4 v;
    asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "l"(at)
                 : "memory");
    return v;
  } else {
    return make_float4(load(at), load(at + 1), load(at + 2), load(at + 3));
  }
}
template <bool kAligned>
SILT_DEVICE uint2 load_4(const uint16_t* at) {
  if constexpr (kAligned) {
    uint2 v;
    asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(at) : "memory");
    return v;
  } else {
    const uint32_t a = load(at);
    const uint32_t b = load(at + 1);
    const uint32_t c = load(at + 2);
    const uint32_t d = load(at + 3);
    return make_uint2(a | b << 16, c | d << 16);
  }
}
template <bool kAligned>
SILT_DEVICE void store_4(uint16_t* at, uint2 v) {
  if constexpr (kAligned) {
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(at), "r"(v.x), "r"(v.y) : "memory");
  } else {
    at[0] = static_cast<uint16_t>(v.x);
    at[1] = static_cast<uint16_t>(v.x >> 16);
    at[2] = static_cast<uint16_t>(v.y);
    at[3] = static_cast<uint16_t>(v.y >> 16);
  }
}

template <bool kAligned>
SILT_DEVICE void store_4(float* at, float4 v) {
  if constexpr (kAligned) {
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(at), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
                 : "memory");
  } else {
    at[0] = v.x;
    at[1] = v.y;
    at[2] = v.z;
    at[3] = v.w;
  }
}

/// evict_first (.cs) leaves L2 to others: faster for launches whose data comes and goes once, slower where reads and
/// writes saturate the memory.
enum class Hint { none, evict_first };

/// Sixteen bytes of fp32 or bf16 elements: one access where kAligned, else one per element, without a hint.
template <bool kAligned, Hint kHint, class T>
SILT_DEVICE uint4 load_vector(const T* at) {
  uint4 v;
  if constexpr (!kAligned && sizeof(T) == 4) {
    v = make_uint4(__float_as_uint(load(at)), __float_as_uint(load(at + 1)), __float_as_uint(load(at + 2)),
                   __float_as_uint(load(at + 3)));
  } else if constexpr (!kAligned) {
    const uint2 low = load_4<false>(at);
    const uint2 high = load_4<false>(at + 4);
    v = make_uint4(low.x, low.y, high.x, high.y);
  } else if constexpr (kHint == Hint::evict_first) {
    asm volatile("ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(at)
                 : "memory");
  } else {
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(at)
                 : "memory");
  }
  return v;
}
template <bool kAligned, Hint kHint, class T>
SILT_DEVICE void store_vector(T* at, uint4 v) {
  if constexpr (!kAligned && sizeof(T) == 4) {
    at[0] = __uint_as_float(v.x);
    at[1] = __uint_as_float(v.y);
    at[2] = __uint_as_float(v.z);
    at[3] = __uint_as_float(v.w);
  } else if constexpr (!kAligned) {
    store_4<false>(at, make_uint2(v.x, v.y));
    store_4<false>(at + 4, make_uint2(v.z, v.w));
  } else if constexpr (kHint == Hint::evict_first) {
    asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
  } else {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
  }
}

/// Makes the compiler forget how a value was computed. A base address stays one register pair with immediate offsets; a
/// value that is cheap to make again is not kept alive instead.
template <class T>
SILT_DEVICE void forget_origin(T*& pointer) {
  asm volatile("" : "+l"(pointer));
}
SILT_DEVICE void forget_origin(int& value) { asm volatile("" : "+r"(value)); }

}  // namespace silt::gpu
