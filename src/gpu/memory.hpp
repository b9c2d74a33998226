// 16-byte loads and stores with cache hints, written in assembly so that the hint and the order stay what the source
// says.
#pragma once

#include "gpu/config.hpp"

namespace silt::gpu {

/// How a load treats the caches.
///  plain     no hint.
///  stream    L1::no_allocate. Behaves like evict-first in L2 as well: faster for launches whose data fits L2, 5-9 %
///            slower for large mixes of reads and writes (measured on H200).
///  constant  the read-only path, for memory that no running kernel writes. ptxas moves such loads below a dependency
///            wait (pdl.hpp): never use it for what must be read before the wait, nor for what a predecessor writes.
enum class Load { plain, stream, constant };

#define SILT_LOAD_16(modifier)                                         \
  asm volatile(                                                        \
      "{ .reg .pred active; setp.ne.s32 active, %5, 0;\n"              \
      "@active ld.global" modifier ".v4.u32 {%0, %1, %2, %3}, [%4]; }" \
      : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)                     \
      : "l"(address), "r"(static_cast<int>(active))                    \
      : "memory")

/// Loads where `active`, leaves the value alone elsewhere. Predicated, so that no branch separates two loads.
template <Load kLoad>
SILT_DEVICE void load_16_into(uint4& v, const void* address, bool active) {
  if constexpr (kLoad == Load::stream) {
    SILT_LOAD_16(".L1::no_allocate");
  } else if constexpr (kLoad == Load::constant) {
    SILT_LOAD_16(".nc");
  } else {
    SILT_LOAD_16("");
  }
}
#undef SILT_LOAD_16

/// The same with zeros where not active.
template <Load kLoad>
SILT_DEVICE uint4 load_16(const void* address, bool active = true) {
  uint4 v = make_uint4(0, 0, 0, 0);
  load_16_into<kLoad>(v, address, active);
  return v;
}

SILT_DEVICE void store_16(void* address, uint4 v) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

/// The address that shared-memory instructions take.
SILT_DEVICE uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

SILT_DEVICE uint4 load_shared_16(uint32_t address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

}  // namespace silt::gpu
