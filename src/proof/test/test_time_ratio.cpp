// time_ratio tells a slow call from a disturbed one.
#include <gtest/gtest.h>

#include "proof/time_ratio.hpp"

namespace silt {
namespace {

void spin(int microseconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
  while (std::chrono::steady_clock::now() < end) {
  }
}

TEST(TimeRatio, FindsWhatIsSlow) {
  EXPECT_GT(time_ratio([] {}, [] { spin(90); }, [] { spin(30); }, 1.5), 2.0);
}

TEST(TimeRatio, ADisturbedRoundIsNoFinding) {
  int calls = 0;
  int prepared = 0;
  const double ratio = time_ratio([&] { ++prepared; }, [&] { spin(++calls < 15 ? 200 : 30); }, [] { spin(30); }, 1.5);
  EXPECT_LE(ratio, 1.5);
  EXPECT_GE(calls, 15);
  EXPECT_EQ(prepared, calls);
}

}  // namespace
}  // namespace silt
