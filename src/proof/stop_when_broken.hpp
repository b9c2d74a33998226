// A test program that includes this stops after the test that broke its GPU. An error of a kernel (an illegal
// instruction, a bad address) stays with the process: every later test would fail for it, or compare memory that was
// never copied back.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "silt/device.hpp"

#include "device/memory.hpp"

namespace silt {

class StopWhenBroken : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo& test) override {
    constexpr Device kGpu = {DeviceKind::cuda, 0};
    static const bool here = [&] {
      DeviceFacts facts;
      return device_facts(kGpu, &facts).ok();
    }();
    if (!here) return;
    const Status status = synchronize(kGpu);
    if (status.ok()) return;
    fmt::print("[  FAILED  ] {}.{} broke the GPU, nothing more is run: {}\n", test.test_suite_name(), test.name(),
               status.message());
    std::fflush(nullptr);
    std::_Exit(1);
  }
};

inline const bool kStopsWhenBroken = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new StopWhenBroken);  // the listeners own it
  return true;
}();

}  // namespace silt
