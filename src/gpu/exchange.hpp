// Asynchronous data: 16-byte stores to cluster peers, waits for them, and bulk copies in both directions (sm_90 and
// later). Beside cluster.hpp.
#pragma once

#include "gpu/cluster.hpp"
#include "gpu/config.hpp"
#include "gpu/memory.hpp"

namespace silt::gpu {

/// Waits for a phase of a barrier that the copy engine or this block completes. The loop stands in one assembly block:
/// written in C++ it makes the compiler emit a second, divergent copy of every shuffle behind it.
SILT_DEVICE void mbarrier_await(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra.uni DONE;\nbra.uni WAIT;\nDONE:\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
/// The same where stores of cluster peers complete it. What they wrote is this block's shared memory, so the acquire is
/// restricted to that: the unrestricted one drops the SM's L1 behind every wait.
SILT_DEVICE void mbarrier_await_cluster(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "WAIT:\nmbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@done bra.uni DONE;\nbra.uni WAIT;\nDONE:\n"
      "fence.acquire.sync_restrict::shared::cluster.cluster;\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

/// As store_async of one float (cluster.hpp); `remote` is aligned to 16 bytes.
SILT_DEVICE void store_async(uint32_t remote, float4 v, uint32_t remote_barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(remote),
      "r"(__float_as_uint(v.x)), "r"(__float_as_uint(v.y)), "r"(__float_as_uint(v.z)), "r"(__float_as_uint(v.w)),
      "r"(remote_barrier)
      : "memory");
}

/// An L2 policy for bulk copies.
SILT_DEVICE uint64_t evict_first_policy() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
SILT_DEVICE void bulk_load(uint32_t target, const void* source, uint32_t bytes, uint32_t barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
          "r"(target),
      "l"(source), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}

/// Starts a copy from shared memory. Every thread that wrote there calls copy_engine_fence first, then a barrier.
SILT_DEVICE void bulk_store(void* target, uint32_t source, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(target), "r"(source), "r"(bytes)
               : "memory");
}
SILT_DEVICE void bulk_store(void* target, uint32_t source, uint32_t bytes, uint64_t policy) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;" ::"l"(target),
               "r"(source), "r"(bytes), "l"(policy)
               : "memory");
}
SILT_DEVICE void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Until this thread's bulk stores have read shared memory; their writes may still be on their way.
SILT_DEVICE void bulk_wait_reads() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

SILT_DEVICE void store_shared_16(uint32_t address, uint4 v) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}
SILT_DEVICE void store_shared_8(uint32_t address, uint2 v) {
  asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(address), "r"(v.x), "r"(v.y) : "memory");
}

/// The block's dynamic shared memory, aligned to 128 bytes.
SILT_DEVICE void* dynamic_shared() {
  extern __shared__ __align__(128) unsigned char silt_dynamic_shared[];
  return silt_dynamic_shared;
}

}  // namespace silt::gpu
