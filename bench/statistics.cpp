#include "bench/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace silt::bench {

double percentile(std::vector<double> samples, double fraction) {
  if (samples.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(samples.begin(), samples.end());
  const double position = fraction * static_cast<double>(samples.size() - 1);
  const double below = std::floor(position);
  const auto index = static_cast<size_t>(below);
  const double low = samples[index];
  const double high = samples[std::min(index + 1, samples.size() - 1)];
  return low + (high - low) * (position - below);
}

Percentiles percentiles(const std::vector<double>& samples) {
  return {percentile(samples, 0.2), percentile(samples, 0.5), percentile(samples, 0.8)};
}

}  // namespace silt::bench
