// Devices that no kernel was built for: what the lists say of them, and, where the stand-in answers (gpu/hip/shim),
// what calls on one say.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "proof/kernels_here.hpp"

namespace silt {
namespace {

struct Stranger {
  const char* like;  ///< a known device, for everything but the architecture
  const char* arch;
  int32_t number;
};
constexpr Stranger kStrangers[] = {{"h200", "sm_75", 75}, {"mi355x", "gfx90a", 0x90a}, {"mi355x", "gfx1100", 0x1100}};

/// Kernels that are not in this build count as there.
DeviceFacts facts_of(const Stranger& stranger) {
  DeviceFacts facts;
  EXPECT_TRUE(canned_facts(stranger.like, &facts).ok());
  facts.name = "stranger";
  facts.arch = stranger.arch;
  facts.arch_number = stranger.number;
  return facts;
}

/// What a call without a policy takes on this CPU, and that its results are right.
void expect_the_cpu_works(const std::string& line) {
  Explanation explanation;
  ASSERT_TRUE(explain(line, cpu_facts(), {}, &explanation).ok()) << line;
  CheckResult result;
  ASSERT_TRUE(check(line, explanation.kernel, {}, 1, &result).ok()) << line;
  EXPECT_TRUE(result.passed) << line << ": " << result.detail;
}

// 36
TEST(OtherGpus, EveryKernelNamesTheArchitectureThatItNeeds) {
  for (const Stranger& stranger : kStrangers) {
    const DeviceFacts facts = facts_of(stranger);
    int asked = 0;
    for (const std::string_view op : operators()) {
      for (const std::string& line : check_lines(op)) {
        Explanation explanation;
        const Status status = explain(line, facts, {}, &explanation);
        EXPECT_EQ(status.code(), StatusCode::unsupported);
        EXPECT_TRUE(status.message().starts_with(fmt::format("{}: no kernel for {} ", op, op))) << status.message();
        EXPECT_TRUE(status.message().ends_with(" on stranger")) << status.message();
        for (const KernelInfo& kernel : kernels(op)) {
          const Status refusal = explain(line, facts, Policy::require(kernel.name), &explanation);
          const std::string begin = fmt::format("{}: kernel {} refuses: ", op, kernel.name);
          const bool same_kind = kernel.device == facts.kind;
          EXPECT_EQ(refusal.code(), StatusCode::unsupported);
          EXPECT_TRUE(refusal.message().starts_with(begin + (same_kind ? "arch: has " : "device: has ")))
              << refusal.message();
          if (!same_kind) continue;
          EXPECT_TRUE(refusal.message().starts_with(begin + fmt::format("arch: has {}, needs ", stranger.arch)))
              << refusal.message();
          ++asked;
        }
      }
    }
    EXPECT_GT(asked, 100) << stranger.arch;
  }
  for (const std::string_view op : operators()) expect_the_cpu_works(check_lines(op).front());
}

// A GPU that is newer than all others: PTX runs there, code for one family does not.
TEST(OtherGpus, PortableKernelsRunOnNewerOnes) {
  const DeviceFacts facts = facts_of({"h200", "sm_120", 120});
  int asked = 0;
  for (const std::string_view op : operators()) {
    for (const KernelInfo& kernel : kernels(op)) {
      if (!kernel.name.starts_with("cuda_sm90")) continue;
      for (const std::string& line : check_lines(op)) {
        Explanation explanation;
        const Status refusal = explain(line, facts, Policy::require(kernel.name), &explanation);
        EXPECT_NE(refusal.message().find("arch: has sm_120, needs "), std::string::npos) << refusal.message();
        ++asked;
      }
    }
  }
  EXPECT_GT(asked, 100);
  Explanation explanation;
  EXPECT_TRUE(explain("attn_res t=4 n=2 d=256", facts, {}, &explanation).ok());
  EXPECT_EQ(explanation.kernel, "cuda_sm80_rows");
}

// 36
TEST(OnStandIn, ADeviceWithoutCodeIsNamedAndEveryOtherWorks) {
  if (!in_host_memory({DeviceKind::hip, 0})) GTEST_SKIP() << "the stand-in is not the HIP runtime of this process";
  const Device stranger{DeviceKind::hip, 2};
  const std::string text = "hip: stand-in for gfx90a is gfx90a: has no code for it, needs one of ";
  DeviceFacts facts;
  const Status status = device_facts(stranger, &facts);
  EXPECT_EQ(status.code(), StatusCode::device_error);
  EXPECT_TRUE(status.message().starts_with(text)) << status.message();
  EXPECT_NE(describe_devices().find(text), std::string::npos);
  for (const std::string_view op : operators()) {
    const std::string line = check_lines(op).front();
    for (const KernelInfo& kernel : kernels(op)) {
      if (kernel.device != DeviceKind::hip) continue;
      CheckResult result;
      const Status refusal = check(line, kernel.name, stranger, 1, &result);
      const std::string& said = refusal.ok() ? result.detail : refusal.message();
      EXPECT_FALSE(refusal.ok() && result.passed);
      EXPECT_NE(said.find(text), std::string::npos) << line << " on " << kernel.name << ": " << said;
    }
    expect_the_cpu_works(line);
  }
}

}  // namespace
}  // namespace silt
