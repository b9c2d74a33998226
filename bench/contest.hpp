// Variants measured against each other: round after round A B C A B C, one sample each, so that whatever disturbs the
// machine disturbs all of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "silt/status.hpp"

namespace silt::bench {

struct Contestant {
  std::string name;
  /// One sample: microseconds per launch.
  std::function<Status(double* us)> sample;
  std::vector<double> samples_us{};
};

/// `rounds` samples of every contestant. `progress` is told the share that is done after every round.
Status run_contest(std::vector<Contestant>& contestants, int rounds, const std::function<void(double)>& progress);

/// How many launches make a sample of at least `sample_us`, where one takes `launch_us`.
int64_t launches_per_sample(double sample_us, double launch_us);

}  // namespace silt::bench
