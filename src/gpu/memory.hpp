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

/// Asks for `bytes` (a multiple of 16, aligned to 16) in L2. No read: it may stand before a dependency wait even for
/// memory that the predecessor still writes, because writes land in L2 as well.
SILT_DEVICE void prefetch_l2(const void* address, uint32_t bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(address), "r"(bytes) : "memory");
}

/// The same for the 32 bytes around an address of any alignment.
SILT_DEVICE void prefetch_l2(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address) : "memory");
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
