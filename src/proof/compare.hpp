// Comparisons that prove something. Each is named by what it promises, counts non-finite values, and has a test that
// plants an error which it must find (test/test_compare.cpp).
//
// Bounds are formulas. Rounding of a result to bf16 is within half a unit in the last place of the exact value; a
// kernel that carries fp32 to the end and rounds once may land on the neighbour, hence "one ulp of the rounded exact
// value". What fp32 arithmetic adds before that rounding is given by the case as an absolute slack per element.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "silt/dtype.hpp"

#include "core/function_ref.hpp"

namespace silt {

/// The largest relative error that one fp32 operation adds.
constexpr double kFloatEpsilon = 0x1p-24;
/// Absolute slack of every output bound (cases.md, tolerances): results that cancel to nearly nothing.
constexpr double kOutputSlack = 1e-6;

/// Absolute slack of an fp32 result: a kernel may flush what is below 2^-126 to zero, at every step. 2^16 terms of a
/// sum, each short by that much, times a factor of up to 2^10 behind the sum (1/sqrt(eps) is 2^8.3), are 2^-100.
constexpr double kUnderflow = 0x1p-100;

/// Relative error of an fp32 sum of `terms` products, in any order: the roundings of a sum behave like a random walk,
/// and four standard deviations of sqrt(terms) steps are never left in practice; 8 covers the operations around the
/// sum. It multiplies the sum of the magnitudes of the terms.
double sum_error(int64_t terms);

/// Distance between neighbouring bf16 values at |x|.
double bf16_ulp(double x);
/// Round to nearest even, once, from double.
double round_to_bf16(double x);

struct Verdict {
  bool ok = true;
  double worst = 0;    ///< largest error as a share of its bound; NaN where a NaN was found that should not be there
  std::string detail;  ///< the first failure

  /// Keeps the larger share; a NaN stays.
  void note(double share);
  void merge(const Verdict& other);
  void fail(std::string text);
};

/// |got - want| <= bound, element by element. A NaN is right only where the reference is NaN, an infinity only where
/// the reference is the same infinity.
Verdict expect_within(std::string_view name, int64_t count, FunctionRef<double(int64_t)> got,
                      FunctionRef<double(int64_t)> want, FunctionRef<double(int64_t)> bound);

/// The output rule: bf16 within `ulps` of the correctly rounded exact value, plus kOutputSlack and `slack`; fp32 within
/// `slack` plus 8 roundings of the value plus kUnderflow.
Verdict expect_output(std::string_view name, DType dtype, int64_t count, FunctionRef<double(int64_t)> got,
                      FunctionRef<double(int64_t)> exact, FunctionRef<double(int64_t)> slack, double ulps);

/// Row by row: ||got - want|| <= bound * ||want|| (Euclidean), rows of `length`; a zero row must be zero.
Verdict expect_rows_within(std::string_view name, int64_t rows, int64_t length, FunctionRef<double(int64_t)> got,
                           FunctionRef<double(int64_t)> want, double bound);

/// Every byte the same.
Verdict expect_bitwise(std::string_view name, std::span<const std::byte> got, std::span<const std::byte> want);

}  // namespace silt
