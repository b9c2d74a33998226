#include "attn_res/bounds.hpp"

#include <cmath>
#include <limits>

#include "proof/compare.hpp"

namespace silt {
namespace {

double root_mean_square(const std::vector<double>& row) {
  double squares = 0;
  for (const double x : row) squares += x * x / static_cast<double>(row.size());
  return std::sqrt(squares);
}

}  // namespace

double attn_res_moved(double logit_error) { return 2 * logit_error + 8 * kFloatEpsilon; }

std::vector<double> attn_res_output_slack(const AttnResMixture& exact, const std::vector<double>& mix_error) {
  const double mix_rms = root_mean_square(exact.mix);
  const bool norm = exact.g != nullptr;
  const auto d = static_cast<int64_t>(mix_error.size());
  const double norm_moved = norm && mix_rms > 0 ? root_mean_square(mix_error) / mix_rms + sum_error(d) : 0;
  std::vector<double> slack;
  for (size_t i = 0; i < mix_error.size(); ++i) {
    const double g = norm ? std::abs(to_float(exact.g[i])) : 1.0;
    const double bound = mix_error[i] * exact.scale * g + norm_moved * std::abs(exact.output[i]);
    slack.push_back(std::isfinite(bound) ? bound : 0.0);
  }
  return slack;
}

bool attn_res_is_sum(float got, float want) {
  if (std::isnan(want)) return std::isnan(got);
  const bool flushed = std::abs(want) < std::numeric_limits<float>::min() && got == 0;
  return got == want || flushed;
}

}  // namespace silt
