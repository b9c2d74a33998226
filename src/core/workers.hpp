// The library's CPU workers: one pool for the process, started at first use and grown to what callers ask for.
//
// A region runs `body` on contiguous ranges of [0, count), one per participant; the caller is participant 0. Idle
// workers spin for a bounded time and then sleep, so that back-to-back operators do not pay a wake-up. Only one region
// uses the pool at a time: a second caller arriving meanwhile does all of its work itself. Kernels give the same bits
// for every split, so that changes the time and nothing else.
//
// fp32 denormals are flushed to zero inside a region, in the caller as well; its floating-point mode is restored after.
#pragma once

#include <cstdint>
#include <type_traits>

namespace silt {

/// How many threads a call may use: `requested` if positive, else the cores this process may run on.
int resolve_threads(int requested);

namespace detail {
using RangeBody = void (*)(void* context, int64_t begin, int64_t end);
void run_region(int64_t count, int threads, RangeBody body, void* context);
}  // namespace detail

/// Runs body(begin, end) over [0, count) on up to `threads` threads. body must not throw and must not start a region.
template <class Body>
void parallel_ranges(int64_t count, int threads, Body&& body) {
  using Plain = std::remove_reference_t<Body>;
  detail::run_region(
      count, threads, [](void* context, int64_t begin, int64_t end) { (*static_cast<Plain*>(context))(begin, end); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace silt
