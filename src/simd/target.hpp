// Opens one SIMD target for the rest of a translation unit.
//
// Vector code lives in headers named *.inl.hpp, inside `namespace silt::SILT_SIMD_NAMESPACE` between SILT_SIMD_BEGIN
// and SILT_SIMD_END. A small source file per target names the target and includes them:
//
//   #define SILT_SIMD_TARGET SILT_SIMD_AVX512
//   #include "attn_res/cpu/simd_rows.inl.hpp"
//
// so that every target is a kernel of its own in the operator's list: explain shows it, a test can force it. The
// instruction set is opened by an attribute on the functions of that namespace and not by compiler flags: a flag would
// also compile inline functions of the standard library for it, and the linker might keep that copy for a CPU without.
// Lambdas do not inherit the attribute under GCC: write functions.
//
// Highway 1.0.3 knows no BF16 instructions, so that avx512bf16 is its AVX-512 target with one attribute more.
#pragma once

#define SILT_SIMD_AVX2 1
#define SILT_SIMD_AVX512 2
#define SILT_SIMD_AVX512BF16 3
#define SILT_SIMD_NEON 4

#ifndef SILT_SIMD_TARGET
#error "name a target before the include: #define SILT_SIMD_TARGET SILT_SIMD_AVX2"
#endif

// Neither AES nor half-float conversions are used here; a CPU need not have them.
#define HWY_DISABLE_PCLMUL_AES
#define HWY_DISABLE_F16C
#if SILT_SIMD_TARGET == SILT_SIMD_NEON
// NEON is part of AArch64 and needs no attribute. Highway 1.0.3 opens one for AES all the same, which not every
// processor has, and which the constructors of structures of its vectors do not get, since the compiler makes them
// outside of the region. This says that Highway chooses no target at run time, and then it opens none.
#define TOOLCHAIN_MISS_SYS_AUXV_H
#endif
#include <hwy/detect_targets.h>
#undef HWY_TARGET
#if SILT_SIMD_TARGET == SILT_SIMD_AVX2
#define HWY_TARGET HWY_AVX2
#define SILT_SIMD_NAMESPACE simd_avx2
#define SILT_SIMD_FEATURE ::silt::kCpuAvx2
#elif SILT_SIMD_TARGET == SILT_SIMD_AVX512
#define HWY_TARGET HWY_AVX3
#define SILT_SIMD_NAMESPACE simd_avx512
#define SILT_SIMD_FEATURE ::silt::kCpuAvx512
#elif SILT_SIMD_TARGET == SILT_SIMD_AVX512BF16
#define HWY_TARGET HWY_AVX3
#define SILT_SIMD_NAMESPACE simd_avx512bf16
#define SILT_SIMD_FEATURE ::silt::kCpuAvx512Bf16
#elif SILT_SIMD_TARGET == SILT_SIMD_NEON
#define HWY_TARGET HWY_NEON
#define SILT_SIMD_NAMESPACE simd_neon
#define SILT_SIMD_FEATURE ::silt::kCpuNeon
#else
#error "SILT_SIMD_TARGET names no known target"
#endif
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#if SILT_SIMD_TARGET == SILT_SIMD_AVX512BF16
#define SILT_SIMD_BEGIN HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512bf16") static_assert(true, "region opened")
#define SILT_SIMD_END HWY_POP_ATTRIBUTES static_assert(true, "region closed")
#else
#define SILT_SIMD_BEGIN HWY_BEFORE_NAMESPACE()
#define SILT_SIMD_END HWY_AFTER_NAMESPACE()
#endif

/// Vector functions are inlined always: a call would pass its vectors through memory.
#define SILT_INLINE inline __attribute__((always_inline))
