// Percentiles of samples: one definition for the program, its JSON and its tests.
#pragma once

#include <vector>

namespace silt::bench {

/// The value below which `fraction` of the samples lie, with linear interpolation between neighbours (position
/// fraction * (n - 1) of the sorted samples, as numpy's default). NaN where there are no samples.
double percentile(std::vector<double> samples, double fraction);

struct Percentiles {
  double p20 = 0;
  double p50 = 0;
  double p80 = 0;
};
Percentiles percentiles(const std::vector<double>& samples);

}  // namespace silt::bench
