// Whether one call is slower than another, on a machine that others use too.
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>

namespace silt {

/// The shortest time of `a` over the shortest time of `b`, the two taking turns, each round after an untimed
/// `prepare`. Rounds go on while the ratio is above `enough`, because a disturbed round is no finding, and end at the
/// last.
template <class Prepare, class A, class B>
double time_ratio(Prepare&& prepare, A&& a, B&& b, double enough) {
  constexpr int kLeastRounds = 10;
  constexpr int kMostRounds = 200;
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](auto& call) {
    const auto begin = Clock::now();
    call();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  double best_a = std::numeric_limits<double>::infinity();
  double best_b = best_a;
  for (int round = 0; round < kMostRounds && (round < kLeastRounds || best_a > enough * best_b); ++round) {
    prepare();
    best_a = std::min(best_a, seconds(a));
    best_b = std::min(best_b, seconds(b));
  }
  return best_a / best_b;
}

}  // namespace silt
