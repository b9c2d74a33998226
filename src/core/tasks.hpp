// Tasks of unequal cost on the library's workers.
#pragma once

#include <algorithm>
#include <atomic>

#include "core/workers.hpp"

namespace silt {

/// Runs body(begin, end) on parts of [0, count): threads take the next few tasks until none is left.
template <class Body>
void parallel_tasks(int64_t count, int threads, Body&& body) {
  const int64_t participants = std::min<int64_t>(resolve_threads(threads), count);
  if (participants <= 1) {
    parallel_ranges(count, 1, body);
    return;
  }
  constexpr int64_t kTakesPerThread = 8;
  const int64_t step = std::max<int64_t>(1, count / (participants * kTakesPerThread));
  std::atomic<int64_t> next{0};
  parallel_ranges(participants, static_cast<int>(participants), [&](int64_t, int64_t) {
    for (int64_t begin = next.fetch_add(step); begin < count; begin = next.fetch_add(step)) {
      body(begin, std::min(begin + step, count));
    }
  });
}

}  // namespace silt
