// The words of device.hpp on a host compiler: a kernel's source runs lane by lane in shim/workgroup.hpp, where the
// rules of the stand-in are. Global pointers are plain pointers, so that the address sanitizer sees a kernel's
// accesses.
#pragma once

#include <cmath>
#include <cstring>

#include "gpu/hip/shim/workgroup.hpp"
#include "gpu/hip/types.hpp"

/// NaN in fp32 and bf16: a value that the wrong branch uses shows in the result.
#define SILT_UNSET \
  = ::silt::hip::shim::Unset {}
#define SILT_UNROLL
#define SILT_DEVICE inline
#define SILT_KERNEL_OF(name, Args, kLeast, kMost, kWavesPerEu)                                          \
  static void name(const Args& args);                                                                   \
  static const ::silt::hip::shim::Registration name##_registration(                                     \
      {#name, sizeof(Args), kLeast, kMost, [](const void* a) { name(*static_cast<const Args*>(a)); }}); \
  static void name([[maybe_unused]] const Args& args)
#define SILT_KERNEL(name, Args, kThreads, kWavesPerEu) SILT_KERNEL_OF(name, Args, kThreads, kThreads, kWavesPerEu)

namespace silt::hip {

using f32x2 = float __attribute__((vector_size(8)));
using f32x4 = float __attribute__((vector_size(16)));
using u32x4 = uint32_t __attribute__((vector_size(16)));

namespace shim {
struct Unset {
  template <class T>
  operator T() const {  // NOLINT(google-explicit-constructor): it is an initial value
    T v;
    std::memset(static_cast<void*>(&v), 0xff, sizeof v);
    return v;
  }
};
}  // namespace shim

struct Lds {};  // local memory is reached through the workgroup

// Every default argument is evaluated at the call, in the kernel's source.
#define SILT_LINE int line = __builtin_LINE()

SILT_DEVICE uint32_t thread_id() { return shim::Workgroup::now().thread(); }
SILT_DEVICE uint32_t group_id() { return shim::Workgroup::now().id(); }
SILT_DEVICE uint32_t uniform(uint32_t v, SILT_LINE) {
  shim::Workgroup& group = shim::Workgroup::now();
  if (group.exchange(v, 0, line) != v) group.fail("a value that is not uniform", line);
  return v;
}

template <int kFloats>
SILT_DEVICE Lds lds_floats(SILT_LINE) {
  shim::Workgroup::now().local_memory(kFloats, line);
  return {};
}
SILT_DEVICE float lds_get(Lds, uint32_t i, SILT_LINE) { return shim::Workgroup::now().local_read(i, line); }
SILT_DEVICE f32x2 lds_get2(Lds p, uint32_t i, SILT_LINE) { return f32x2{lds_get(p, i, line), lds_get(p, i + 1, line)}; }
SILT_DEVICE f32x4 lds_get4(Lds p, uint32_t i, SILT_LINE) {
  return f32x4{lds_get(p, i, line), lds_get(p, i + 1, line), lds_get(p, i + 2, line), lds_get(p, i + 3, line)};
}
SILT_DEVICE void lds_put(Lds, uint32_t i, float v, SILT_LINE) { shim::Workgroup::now().local_write(i, v, line); }
SILT_DEVICE void lds_put2(Lds p, uint32_t i, f32x2 v, SILT_LINE) {
  lds_put(p, i, v[0], line);
  lds_put(p, i + 1, v[1], line);
}
SILT_DEVICE void lds_barrier(SILT_LINE) { shim::Workgroup::now().barrier(line); }

SILT_DEVICE void schedule_fence() {}
/// On the device a scalar register takes the first lane's value, whatever the others have.
template <class T>
SILT_DEVICE T* scalar_base(T* p, SILT_LINE) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  const auto folded = static_cast<uint32_t>(address ^ (address >> 32));
  shim::Workgroup& group = shim::Workgroup::now();
  if (group.exchange(folded, 0, line) != folded) group.fail("an address that is not uniform", line);
  return p;
}
template <class T>
SILT_DEVICE T late(T v) {
  return v;
}

SILT_DEVICE uint32_t bits(float v) {
  uint32_t u = 0;
  std::memcpy(&u, &v, sizeof u);
  return u;
}
SILT_DEVICE float real(uint32_t u) {
  float v = 0;
  std::memcpy(&v, &u, sizeof v);
  return v;
}
template <int kLanes>
SILT_DEVICE float rotate16(float v, SILT_LINE) {
  const uint32_t lane = thread_id() % shim::kWaveLanes;
  return real(shim::Workgroup::now().exchange(bits(v), (lane & 48u) | ((lane - kLanes) & 15u), line));
}
SILT_DEVICE float carry16(float v, SILT_LINE) {
  const uint32_t lane = thread_id() % shim::kWaveLanes;
  const float before = real(shim::Workgroup::now().exchange(bits(v), (lane & 48u) - 1, line));
  return lane >= 16 ? before : 0.0F;
}
SILT_DEVICE float carry32(float v, SILT_LINE) {
  const float before = real(shim::Workgroup::now().exchange(bits(v), 31, line));
  return thread_id() % shim::kWaveLanes >= 32 ? before : 0.0F;
}
template <int kLane>
SILT_DEVICE float broadcast16(float v, SILT_LINE) {
  return real(shim::Workgroup::now().exchange(bits(v), (thread_id() & 48u) | kLane, line));
}

/// Results below 2^-126 are 0, as those of the device's special functions.
SILT_DEVICE float flush(float v) { return std::abs(v) < 0x1p-126F ? std::copysign(0.0F, v) : v; }
SILT_DEVICE float fast_exp2(float v) { return flush(std::exp2(v)); }
SILT_DEVICE float fast_log2(float v) { return flush(std::log2(v)); }
SILT_DEVICE float fast_reciprocal(float v) { return flush(1.0F / v); }
SILT_DEVICE float fast_rsqrt(float v) { return flush(1.0F / std::sqrt(v)); }
SILT_DEVICE float fma1(float a, float b, float c) { return std::fma(a, b, c); }
SILT_DEVICE float max1(float a, float b) { return std::fmax(a, b); }
SILT_DEVICE f32x2 fma2(f32x2 a, f32x2 b, f32x2 c) { return f32x2{fma1(a[0], b[0], c[0]), fma1(a[1], b[1], c[1])}; }
SILT_DEVICE f32x4 fma4(f32x4 a, f32x4 b, f32x4 c) {
  return f32x4{fma1(a[0], b[0], c[0]), fma1(a[1], b[1], c[1]), fma1(a[2], b[2], c[2]), fma1(a[3], b[3], c[3])};
}
SILT_DEVICE uint32_t multiply_high(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>((static_cast<uint64_t>(a) * b) >> 32);
}
SILT_DEVICE uint32_t pack_bf16(float low, float high) {
  const auto rounded = [](float v) {
    const uint32_t u = bits(v);
    return std::isnan(v) ? u | 0x400000u : u + 0x7fffu + ((u >> 16) & 1u);
  };
  return (rounded(low) >> 16) | (rounded(high) & 0xffff0000u);
}

template <class V, class T>
SILT_DEVICE V load(const T* p, SILT_LINE) {
  if (reinterpret_cast<uintptr_t>(p) % sizeof(V) != 0) shim::Workgroup::now().fail("a misaligned load", line);
  V v;
  std::memcpy(&v, static_cast<const void*>(p), sizeof v);
  return v;
}
template <class V, class T>
SILT_DEVICE void store(T* p, V v, SILT_LINE) {
  if (reinterpret_cast<uintptr_t>(p) % sizeof(V) != 0) shim::Workgroup::now().fail("a misaligned store", line);
  std::memcpy(static_cast<void*>(p), &v, sizeof v);
}
template <class V, class T>
SILT_DEVICE V load_stream(const T* p, SILT_LINE) {
  return load<V>(p, line);
}
template <class V, class T>
SILT_DEVICE void store_stream(T* p, V v, SILT_LINE) {
  store(p, v, line);
}

}  // namespace silt::hip
