// Every comparison must find what is planted here; a helper that cannot fail proves nothing.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "proof/compare.hpp"

namespace silt {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<double> ramp(int64_t n) {
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(0.37 * static_cast<double>(i) - 3.1);
  return values;
}

auto at(const std::vector<double>& values) {
  return [&values](int64_t i) { return values[static_cast<size_t>(i)]; };
}

bool within(const std::vector<double>& got, const std::vector<double>& want, double bound) {
  return expect_within("x", static_cast<int64_t>(want.size()), at(got), at(want), [&](int64_t) { return bound; }).ok;
}

TEST(Compare, WithinFindsOneWrongElement) {
  const std::vector<double> want = ramp(100);
  EXPECT_TRUE(within(want, want, 1e-9));
  for (const size_t place : {size_t{0}, size_t{57}, size_t{99}}) {
    std::vector<double> got = want;
    got[place] += 2e-9;
    EXPECT_FALSE(within(got, want, 1e-9));
    EXPECT_TRUE(within(got, want, 3e-9));
  }
}

TEST(Compare, NaNAndInfinityNeverPass) {
  const std::vector<double> want = ramp(8);
  for (const double wrong : {kNaN, kInf, -kInf}) {
    std::vector<double> got = want;
    got[5] = wrong;
    EXPECT_FALSE(within(got, want, 1e300));
    EXPECT_FALSE(within(got, want, kInf)) << "not even with an infinite bound" << wrong;
    EXPECT_FALSE(within(want, got, 1e300)) << "a finite value is wrong where the reference is " << wrong;
    EXPECT_TRUE(within(got, got, 0));
    EXPECT_FALSE(expect_rows_within("x", 2, 4, at(got), at(want), 1e300).ok);
    EXPECT_FALSE(expect_rows_within("x", 2, 4, at(want), at(got), 1e300).ok);
  }
  std::vector<double> positive = want;
  std::vector<double> negative = want;
  positive[3] = kInf;
  negative[3] = -kInf;
  EXPECT_FALSE(within(positive, negative, 1e300));
}

TEST(Compare, ANaNBoundFails) {
  const std::vector<double> want = ramp(4);
  std::vector<double> got = want;
  got[1] += 1e-12;
  EXPECT_FALSE(within(got, want, kNaN));
}

TEST(Compare, OutputRuleIsOneUlpOfTheRoundedValue) {
  const std::vector<double> exact = {1.0, 1.003, -3.02, 200.7};
  const auto check = [&](double ulps_off, double allowed) {
    std::vector<double> got;
    for (const double x : exact) got.push_back(round_to_bf16(x) + ulps_off * bf16_ulp(x));
    const auto none = [](int64_t) { return 0.0; };
    return expect_output("y", DType::bf16, 4, at(got), at(exact), none, allowed).ok;
  };
  EXPECT_TRUE(check(0, 1));
  EXPECT_TRUE(check(1, 1));
  EXPECT_FALSE(check(1.01, 1));
  EXPECT_FALSE(check(2, 1));
  EXPECT_TRUE(check(2, 2));
}

TEST(Compare, OutputRuleOfFp32) {
  const std::vector<double> exact = {1.0, 8.0};
  std::vector<double> got = {1.0, 8.0 * (1 + 6e-7)};
  const auto none = [](int64_t) { return 0.0; };
  EXPECT_FALSE(expect_output("y", DType::f32, 2, at(got), at(exact), none, 1).ok);
  got[1] = 8.0 * (1 + 4e-7);
  EXPECT_TRUE(expect_output("y", DType::f32, 2, at(got), at(exact), none, 1).ok);
}

TEST(Compare, RowsFindASwappedRowAndOneWrongElement) {
  const std::vector<double> want = ramp(12);
  std::vector<double> got = want;
  EXPECT_TRUE(expect_rows_within("s", 3, 4, at(got), at(want), 1e-5).ok);
  for (size_t c = 0; c < 4; ++c) std::swap(got[c], got[4 + c]);
  EXPECT_FALSE(expect_rows_within("s", 3, 4, at(got), at(want), 1e-5).ok);
  got = want;
  got[11] *= 1 + 1e-4;
  EXPECT_FALSE(expect_rows_within("s", 3, 4, at(got), at(want), 1e-5).ok);
}

TEST(Compare, AZeroRowMustBeZero) {
  const std::vector<double> want(4, 0.0);
  std::vector<double> got(4, 0.0);
  EXPECT_TRUE(expect_rows_within("s", 1, 4, at(got), at(want), 1e-5).ok);
  got[2] = 1e-30;
  EXPECT_FALSE(expect_rows_within("s", 1, 4, at(got), at(want), 1e-5).ok);
}

TEST(Compare, BitwiseFindsOneBit) {
  std::vector<std::byte> a(100, std::byte{7});
  std::vector<std::byte> b = a;
  EXPECT_TRUE(expect_bitwise("b", a, b).ok);
  b[99] ^= std::byte{1};
  EXPECT_FALSE(expect_bitwise("b", a, b).ok);
  b = a;
  b.pop_back();
  EXPECT_FALSE(expect_bitwise("b", a, b).ok);
}

TEST(Compare, MergeKeepsTheFirstFailureAndTheWorstShare) {
  Verdict all;
  Verdict bad;
  bad.worst = kNaN;
  bad.fail("first");
  all.merge(bad);
  Verdict good;
  good.worst = 0.5;
  all.merge(good);
  EXPECT_FALSE(all.ok);
  EXPECT_TRUE(std::isnan(all.worst));
  EXPECT_EQ(all.detail, "first");
}

TEST(Rounding, Bf16ToNearestEvenBothWays) {
  for (const float x : {1.0F, 1.00390625F, 1.01171875F, -2.7F, 3e38F, 1e-39F, 0.0F, 65537.0F}) {
    EXPECT_EQ(static_cast<double>(to_float(to_bf16(x))), round_to_bf16(x)) << x;
  }
  EXPECT_EQ(to_float(to_bf16(1.00390625F)), 1.0F) << "a tie goes to the even neighbour";
  EXPECT_EQ(to_float(to_bf16(1.01171875F)), 1.015625F) << "a tie goes to the even neighbour";
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::nanf("")))));
  EXPECT_EQ(round_to_bf16(3.4e38), kInf);
}

}  // namespace
}  // namespace silt
