#include "proof/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace silt {

double sum_error(int64_t terms) { return (8 + 4 * std::sqrt(static_cast<double>(terms))) * kFloatEpsilon; }

double bf16_ulp(double x) {
  const double magnitude = std::max(std::abs(x), 0x1p-126);  // denormals share the spacing of the smallest normal
  return std::ldexp(1.0, std::ilogb(magnitude) - 7);
}

double round_to_bf16(double x) {
  if (!std::isfinite(x) || x == 0) return x;
  const double step = bf16_ulp(x);
  const double rounded = std::nearbyint(x / step) * step;  // exact: a power of two; ties to even
  constexpr double kLargest = 0x1.FEp127;
  if (std::abs(rounded) > kLargest) return std::copysign(std::numeric_limits<double>::infinity(), x);
  return rounded;
}

void Verdict::fail(std::string text) {
  ok = false;
  if (detail.empty()) detail = std::move(text);
}

void Verdict::note(double share) {
  if (!std::isnan(worst) && !(share <= worst)) worst = share;
}

void Verdict::merge(const Verdict& other) {
  note(other.worst);
  if (!other.ok) fail(other.detail);
}

Verdict expect_within(std::string_view name, int64_t count, FunctionRef<double(int64_t)> got,
                      FunctionRef<double(int64_t)> want, FunctionRef<double(int64_t)> bound) {
  Verdict verdict;
  int64_t bad = 0;
  std::string first;
  for (int64_t i = 0; i < count; ++i) {
    const double g = got(i);
    const double w = want(i);
    const bool special = !std::isfinite(w);
    const bool same = std::isnan(w) ? std::isnan(g) : g == w;
    if (special ? same : g == w) continue;
    const double limit = special ? 0 : bound(i);
    const double share = std::abs(g - w) / limit;
    verdict.note(share);
    if (!special && std::isfinite(g) && std::abs(g - w) <= limit) continue;
    if (bad++ == 0) first = fmt::format("{}[{}]: has {}, needs {} within {:.3g}", name, i, g, w, limit);
  }
  if (bad != 0) verdict.fail(fmt::format("{} ({} of {} wrong)", first, bad, count));
  return verdict;
}

Verdict expect_output(std::string_view name, DType dtype, int64_t count, FunctionRef<double(int64_t)> got,
                      FunctionRef<double(int64_t)> exact, FunctionRef<double(int64_t)> slack, double ulps) {
  if (dtype == DType::bf16) {
    return expect_within(
        name, count, got, [&](int64_t i) { return round_to_bf16(exact(i)); },
        [&](int64_t i) { return ulps * bf16_ulp(exact(i)) + kOutputSlack + slack(i); });
  }
  return expect_within(name, count, got, exact,
                       [&](int64_t i) { return 8 * kFloatEpsilon * std::abs(exact(i)) + slack(i) + kUnderflow; });
}

Verdict expect_rows_within(std::string_view name, int64_t rows, int64_t length, FunctionRef<double(int64_t)> got,
                           FunctionRef<double(int64_t)> want, double bound) {
  Verdict verdict;
  for (int64_t r = 0; r < rows; ++r) {
    double error = 0;
    double norm = 0;
    bool special_differs = false;
    for (int64_t c = 0; c < length; ++c) {
      const double g = got(r * length + c);
      const double w = want(r * length + c);
      if (!std::isfinite(w) || !std::isfinite(g)) {
        special_differs |= std::isnan(w) ? !std::isnan(g) : g != w;
        continue;
      }
      error += (g - w) * (g - w);
      norm += w * w;
    }
    const double share = special_differs ? std::numeric_limits<double>::quiet_NaN()
                         : error == 0    ? 0
                                         : std::sqrt(error / norm) / bound;
    verdict.note(share);
    if (!(share <= 1)) verdict.fail(fmt::format("{} row {}: error {:.3g} of its bound {:.3g}", name, r, share, bound));
  }
  return verdict;
}

Verdict expect_bitwise(std::string_view name, std::span<const std::byte> got, std::span<const std::byte> want) {
  Verdict verdict;
  if (got.size() != want.size()) {
    verdict.fail(fmt::format("{}: has {} bytes, needs {}", name, got.size(), want.size()));
    return verdict;
  }
  if (got.empty() || std::memcmp(got.data(), want.data(), got.size()) == 0) return verdict;
  const auto at = std::mismatch(got.begin(), got.end(), want.begin());
  const int64_t index = at.first - got.begin();
  verdict.worst = std::numeric_limits<double>::infinity();
  verdict.fail(fmt::format("{}: byte {} differs: has {:02x}, needs {:02x}", name, index,
                           std::to_integer<unsigned>(*at.first), std::to_integer<unsigned>(*at.second)));
  return verdict;
}

}  // namespace silt
