// The words of device.hpp on AMD CDNA (waves of 64 lanes): one or a few compiler builtins each, no vendor header.
#pragma once

#include "gpu/hip/types.hpp"

/// After a declaration whose value comes from one side of a branch: no initial value. Zero, and even a
/// "nondeterministic" value, costs a register move at the end of the other side, and that move waits for the loads in
/// flight.
#define SILT_UNSET
#define SILT_UNROLL _Pragma("unroll")
#define SILT_DEVICE __attribute__((device, always_inline)) inline
/// Defines kernel `name(const Args& args)` for workgroups of kLeast to kMost threads; the body follows. kWavesPerEu:
/// waves a SIMD must hold, which bounds the registers (512 per lane).
#define SILT_KERNEL_OF(name, Args, kLeast, kMost, kWavesPerEu)                                                    \
  extern "C" __attribute__((global, amdgpu_flat_work_group_size(kLeast, kMost), amdgpu_waves_per_eu(kWavesPerEu), \
                            visibility("default"))) void                                                          \
  name(Args args)
/// The same for workgroups of one size.
#define SILT_KERNEL(name, Args, kThreads, kWavesPerEu) SILT_KERNEL_OF(name, Args, kThreads, kThreads, kWavesPerEu)

namespace silt::hip {

typedef float f32x2 __attribute__((ext_vector_type(2)));
typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef uint32_t u32x4 __attribute__((ext_vector_type(4)));
using Lds = float __attribute__((address_space(3)))*;

// ---- where am I

SILT_DEVICE uint32_t thread_id() { return __builtin_amdgcn_workitem_id_x(); }
SILT_DEVICE uint32_t group_id() { return __builtin_amdgcn_workgroup_id_x(); }
/// A promise that all lanes of the wave hold the same value: it moves to a scalar register, and branches on it become
/// scalar.
SILT_DEVICE uint32_t uniform(uint32_t v) { return (uint32_t)__builtin_amdgcn_readfirstlane((int32_t)v); }

// ---- LDS (local data share: the workgroup's shared memory) and barrier

template <int kFloats>
SILT_DEVICE Lds lds_floats() {
  __attribute__((shared, aligned(16))) static float memory[kFloats];
  return (Lds)memory;
}
SILT_DEVICE float lds_get(Lds p, uint32_t i) { return p[i]; }
SILT_DEVICE f32x2 lds_get2(Lds p, uint32_t i) { return *(f32x2 __attribute__((address_space(3)))*)(p + i); }
SILT_DEVICE f32x4 lds_get4(Lds p, uint32_t i) { return *(f32x4 __attribute__((address_space(3)))*)(p + i); }
SILT_DEVICE void lds_put(Lds p, uint32_t i, float v) { p[i] = v; }
SILT_DEVICE void lds_put2(Lds p, uint32_t i, f32x2 v) { *(f32x2 __attribute__((address_space(3)))*)(p + i) = v; }

/// Publishes LDS, nothing else: the fences name the "local" address space, so that the compiler waits for LDS and
/// leaves loads and stores of global memory in flight.
SILT_DEVICE void lds_barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
}

// ---- order of instructions; all of these emit none

/// Nothing is scheduled across this point.
SILT_DEVICE void schedule_fence() { __builtin_amdgcn_sched_barrier(0); }
/// Keeps an address that is the same in all lanes in scalar registers, and hides how it was made. Without it one 64-bit
/// vector address per store stays alive from the loads to the stores, which spills.
template <class T>
SILT_DEVICE Global<T> scalar_base(Global<T> p) {
  asm("" : "+s"(p));
  return p;
}
/// Arithmetic on v stays behind this point. schedule_fence does not stop the optimiser, which moves the first operation
/// on a loaded value up to the load, where the wait for it then stands in front of later loads. Takes the type as
/// loaded: a widened one has been operated on.
template <class T>
SILT_DEVICE T late(T v) {
  asm volatile("" : "+v"(v));
  return v;
}

// ---- bits and moves between lanes

// Scalars only: __builtin_bit_cast of a vector's element reads element 0 in clang 19.
SILT_DEVICE uint32_t bits(float v) { return __builtin_bit_cast(uint32_t, v); }
SILT_DEVICE float real(uint32_t v) { return __builtin_bit_cast(float, v); }

/// A move inside the registers (DPP) within each row of 16 lanes.
template <int kControl>
SILT_DEVICE float move16(float v) {
  return real((uint32_t)__builtin_amdgcn_update_dpp(0, (int32_t)bits(v), kControl, 0xf, 0xf, false));
}
/// Rotation by kLanes within each row of 16 lanes: lane i gets lane (i - kLanes) mod 16.
template <int kLanes>
SILT_DEVICE float rotate16(float v) {
  constexpr int kRowRotate = 0x120;  // DPP control row_ror
  return move16<kRowRotate + kLanes>(v);
}
/// The last lane's value of the row of 16 lanes before; 0 in the first row. No rows are masked: so the move folds into
/// the addition that takes its result.
SILT_DEVICE float carry16(float v) {
  constexpr int kRowBroadcast15 = 0x142;  // DPP control row_bcast:15
  return real((uint32_t)__builtin_amdgcn_update_dpp(0, (int32_t)bits(v), kRowBroadcast15, 0xf, 0xf, true));
}
/// Lane 31's value in the upper 32 lanes; 0 in the others.
SILT_DEVICE float carry32(float v) {
  constexpr int kRowBroadcast31 = 0x143;  // DPP control row_bcast:31
  return real((uint32_t)__builtin_amdgcn_update_dpp(0, (int32_t)bits(v), kRowBroadcast31, 0xf, 0xf, true));
}
/// The value of lane kLane of each row of 16 lanes, in all lanes of the row.
template <int kLane>
SILT_DEVICE float broadcast16(float v) {
  constexpr int kRowBroadcast = 0x150;  // DPP control row_newbcast
  return move16<kRowBroadcast + kLane>(v);
}

// ---- arithmetic. The approximations are within 1 ulp; results below 2^-126 are 0; NaN and infinities as exact.

SILT_DEVICE float fast_exp2(float v) { return __builtin_amdgcn_exp2f(v); }
SILT_DEVICE float fast_log2(float v) { return __builtin_amdgcn_logf(v); }
SILT_DEVICE float fast_reciprocal(float v) { return __builtin_amdgcn_rcpf(v); }
SILT_DEVICE float fast_rsqrt(float v) { return __builtin_amdgcn_rsqf(v); }
SILT_DEVICE float fma1(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
SILT_DEVICE float max1(float a, float b) { return __builtin_fmaxf(a, b); }
SILT_DEVICE f32x2 fma2(f32x2 a, f32x2 b, f32x2 c) { return __builtin_elementwise_fma(a, b, c); }
SILT_DEVICE f32x4 fma4(f32x4 a, f32x4 b, f32x4 c) { return __builtin_elementwise_fma(a, b, c); }
SILT_DEVICE uint32_t multiply_high(uint32_t a, uint32_t b) { return (uint32_t)(((uint64_t)a * b) >> 32); }
/// Two floats as a pair of bf16, to nearest even. The compiler's conversion: one instruction on gfx950, 5.5 a value on
/// gfx942, which is less than a test for NaN by hand costs.
SILT_DEVICE uint32_t pack_bf16(float low, float high) {
  typedef __bf16 bf16x2 __attribute__((ext_vector_type(2)));
  return __builtin_bit_cast(uint32_t, __builtin_convertvector((f32x2){low, high}, bf16x2));
}

// ---- global memory

template <class V, class T>
SILT_DEVICE V load(Global<T> p) {
  return *(Global<const V>)p;
}
template <class V, class T>
SILT_DEVICE void store(Global<T> p, V v) {
  *(Global<V>)p = v;
}
/// Past the caches: data that comes and goes once.
template <class V, class T>
SILT_DEVICE V load_stream(Global<T> p) {
  return __builtin_nontemporal_load((Global<const V>)p);
}
template <class V, class T>
SILT_DEVICE void store_stream(Global<T> p, V v) {
  __builtin_nontemporal_store(v, (Global<V>)p);
}

}  // namespace silt::hip
