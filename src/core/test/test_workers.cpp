#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

#include "core/tasks.hpp"

namespace silt {
namespace {

TEST(Workers, EveryIndexOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    for (const int64_t count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> hits(static_cast<size_t>(count));
      parallel_ranges(count, threads, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) hits[static_cast<size_t>(i)].fetch_add(1);
      });
      for (const auto& hit : hits) EXPECT_EQ(hit.load(), 1);
    }
  }
}

TEST(Tasks, EveryIndexOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    for (const int64_t count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> hits(static_cast<size_t>(count));
      parallel_tasks(count, threads, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) hits[static_cast<size_t>(i)].fetch_add(1);
      });
      for (const auto& hit : hits) EXPECT_EQ(hit.load(), 1);
    }
  }
}

TEST(Workers, ManyCallersAtOnce) {
  std::atomic<int64_t> total{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        parallel_ranges(10, 4, [&](int64_t begin, int64_t end) { total.fetch_add(end - begin); });
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(total.load(), 4 * 500 * 10);
}

TEST(Workers, WakesAfterSleeping) {
  for (int i = 0; i < 3; ++i) {
    std::atomic<int64_t> total{0};
    parallel_ranges(4, 4, [&](int64_t begin, int64_t end) { total.fetch_add(end - begin); });
    EXPECT_EQ(total.load(), 4);
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
}

TEST(Workers, DenormalsAreFlushedInsideAndKeptOutside) {
  const volatile float tiny = 1e-39F;
  const volatile float half = 0.5F;
  const auto product = [&] { return tiny * half; };
  ASSERT_GT(product(), 0.0F);
  float inside = 1.0F;
  parallel_ranges(1, 1, [&](int64_t, int64_t) { inside = product(); });
#if defined(__x86_64__) || defined(__aarch64__)
  EXPECT_EQ(inside, 0.0F);
#endif
  EXPECT_GT(product(), 0.0F);
}

}  // namespace
}  // namespace silt
