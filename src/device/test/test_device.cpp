#include <gtest/gtest.h>

#include "silt/device.hpp"

namespace silt {
namespace {

TEST(Device, CannedNamesAllResolve) {
  for (const std::string_view name : canned_names()) {
    DeviceFacts facts;
    ASSERT_TRUE(canned_facts(name, &facts).ok());
    EXPECT_EQ(facts.name, name);
    EXPECT_GT(facts.processors, 0);
    EXPECT_NE(to_string(facts).find(facts.arch), std::string::npos);
  }
}

TEST(Device, UnknownNameListsTheKnownOnes) {
  DeviceFacts facts;
  const Status status = canned_facts("h2000", &facts);
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_NE(status.message().find("h2000"), std::string::npos);
  EXPECT_NE(status.message().find("h200, b200"), std::string::npos);
}

TEST(Device, ThisCpuHasFacts) {
  DeviceFacts facts;
  ASSERT_TRUE(device_facts({}, &facts).ok());
  EXPECT_GE(facts.processors, 1);
  EXPECT_EQ(device_facts({DeviceKind::cpu, 1}, &facts).code(), StatusCode::invalid_argument);
  EXPECT_NE(describe_devices().find("cpu"), std::string::npos);
}

}  // namespace
}  // namespace silt
