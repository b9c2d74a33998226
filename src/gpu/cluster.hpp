// Thread-block clusters, their shared memory and mbarriers (sm_90 and later).
//
// A launch has one cluster per block index x; the blocks of a cluster lie along y (gpu/launch.hpp), so blockIdx.y is
// the rank and gridDim.y the size. %clusterid is not used: the driver derives it by a floating-point product.
#pragma once

#include "gpu/config.hpp"
#include "gpu/memory.hpp"

namespace silt::gpu {

/// The two halves of a cluster barrier. The arrival is relaxed: the thread that initialised mbarriers has published
/// them with mbarrier_init_fence. The default arrival (release) compiles to a memory barrier of the whole GPU, which
/// waits for every load in flight: 0.4 us at one token.
SILT_DEVICE void cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
SILT_DEVICE void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

/// The address of the same shared variable in block `rank` of the cluster.
SILT_DEVICE uint32_t remote_address(uint32_t address, uint32_t rank) {
  uint32_t remote;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
  return remote;
}

SILT_DEVICE void mbarrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// Makes initialised mbarriers visible to the cluster and to the copy engine.
SILT_DEVICE void mbarrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
/// Arrives, and announces `bytes` that asynchronous stores or copies will complete.
SILT_DEVICE void mbarrier_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
SILT_DEVICE void mbarrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
SILT_DEVICE void mbarrier_wait(uint32_t barrier, uint32_t parity) {
  uint32_t done;
  do {
    asm volatile(
        "{ .reg .pred done; mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2; selp.u32 %0, 1, 0, done; }"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (done == 0);
}
/// The same for data that other blocks of the cluster wrote: acquires at cluster scope, which drops this SM's L1.
SILT_DEVICE void mbarrier_wait_cluster(uint32_t barrier, uint32_t parity) {
  uint32_t done;
  do {
    asm volatile(
        "{ .reg .pred done; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%1], %2;\n"
        "selp.u32 %0, 1, 0, done; }"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (done == 0);
}

/// Stores a float into the shared memory of a block of the cluster and counts its 4 bytes on a barrier of that block.
/// Both addresses come from remote_address.
SILT_DEVICE void store_async(uint32_t remote, float value, uint32_t remote_barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(remote),
               "r"(__float_as_uint(value)), "r"(remote_barrier)
               : "memory");
}

/// The same for two floats, 8 bytes; `remote` is aligned to 8.
SILT_DEVICE void store_async(uint32_t remote, float2 v, uint32_t remote_barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(remote),
               "r"(__float_as_uint(v.x)), "r"(__float_as_uint(v.y)), "r"(remote_barrier)
               : "memory");
}

/// Starts a copy of `bytes` (a multiple of 16, both ends aligned to 16) into shared memory, counted on `barrier`.
SILT_DEVICE void bulk_load(uint32_t target, const void* source, uint32_t bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(target),
               "l"(source), "r"(bytes), "r"(barrier)
               : "memory");
}
/// Orders this thread's accesses to shared memory before later copies of the copy engine into it.
SILT_DEVICE void copy_engine_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/// A barrier over the first kThreads threads of a block; kId 1..15 (0 is __syncthreads).
template <int kId>
SILT_DEVICE void named_barrier(int threads) {
  asm volatile("bar.sync %0, %1;" ::"n"(kId), "r"(threads) : "memory");
}

}  // namespace silt::gpu
