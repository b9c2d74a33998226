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

template <Load kLoad>
SILT_DEVICE uint4 load_16(const void* address) {
  uint4 v;
  if constexpr (kLoad == Load::stream) {
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(address)
                 : "memory");
  } else if constexpr (kLoad == Load::constant) {
    asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(address)
                 : "memory");
  } else {
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(address)
                 : "memory");
  }
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
