#include "bench/contest.hpp"

#include <algorithm>
#include <cmath>

#include "core/status.hpp"

namespace silt::bench {

Status run_contest(std::vector<Contestant>& contestants, int rounds, const std::function<void(double)>& progress) {
  for (int round = 0; round < rounds; ++round) {
    for (Contestant& contestant : contestants) {
      double us = 0;
      SILT_TRY(contestant.sample(&us));
      contestant.samples_us.push_back(us);
    }
    progress(static_cast<double>(round + 1) / rounds);
  }
  return {};
}

int64_t launches_per_sample(double sample_us, double launch_us) {
  constexpr double kMost = 1e6;
  const double wanted = std::ceil(sample_us / std::max(launch_us, 1e-3));
  return static_cast<int64_t>(std::clamp(wanted, 1.0, kMost));
}

}  // namespace silt::bench
