// Plain loops compiled for several instruction sets, the best one chosen at run time.
//
//   SILT_LOOP void add_one(float* x, int64_t n) { for (int64_t i = 0; i < n; ++i) x[i] += 1; }
//   on_cpu<add_one>(x, n);
//
// The loop is inlined into one function per instruction set, and the compiler vectorises it for each. All give the same
// bits: sums have lanes of their own in the source, and multiply-adds are not contracted (cmake/SiltSettings.cmake).
#pragma once

#include "silt/device.hpp"

#define SILT_LOOP [[gnu::always_inline]] inline

namespace silt {

enum class CpuLevel : int { base, avx2, avx512 };

inline CpuLevel cpu_level() {
  static const CpuLevel level = cpu_facts().has(kCpuAvx512) ? CpuLevel::avx512
                                : cpu_facts().has(kCpuAvx2) ? CpuLevel::avx2
                                                            : CpuLevel::base;
  return level;
}

template <auto Loop>
struct OnCpu;

template <class Result, class... Args, Result (*Loop)(Args...)>
struct OnCpu<Loop> {
  static Result base(Args... args) { return Loop(args...); }
#if defined(__x86_64__)
  [[gnu::target("avx2")]] static Result avx2(Args... args) { return Loop(args...); }
  [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] static Result avx512(Args... args) { return Loop(args...); }
#endif
};

template <auto Loop, class... Args>
auto on_cpu(Args... args) {
#if defined(__x86_64__)
  if (cpu_level() == CpuLevel::avx512) return OnCpu<Loop>::avx512(args...);
  if (cpu_level() == CpuLevel::avx2) return OnCpu<Loop>::avx2(args...);
#endif
  return OnCpu<Loop>::base(args...);
}

}  // namespace silt
