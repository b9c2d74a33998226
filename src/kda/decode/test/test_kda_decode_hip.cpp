// kda_decode on AMD devices without one: what a device takes, and, where the stand-in answers (gpu/hip/shim), what the
// launch does with it. Every case of the operator runs there in test_kda_decode.cpp as well.
#include <gtest/gtest.h>

#include "device/hip_objects.hpp"
#include "device/hip_runtime.hpp"
#include "kda/decode/hip/hip_heads.hpp"
#include "kda/decode/test/kda_decode_test.hpp"
#include "proof/hip_graph.hpp"

namespace silt {
namespace {

TEST(KdaDecodeHip, EveryCallIsNative) {
  expect_native_on_amd("kda_decode", "heads", [](const std::string& line, const Explanation& explanation) {
    const bool single = line.find(" align=2") != std::string::npos || line.find(" state_align=") != std::string::npos;
    EXPECT_NE(explanation.plan.find(single ? "single elements" : "whole vectors"), std::string::npos) << line;
  });
}

TEST(KdaDecodeHip, RefusalsSayWhatIsNeeded) {
  expect_refusals("mi355x", {{"kda_decode b=4 h=12 dtype=f32", "dtype: has f32, needs bf16"},
                             {"kda_decode b=1 h=131073", "h: has 131073, needs at most 131072"},
                             {"kda_decode b=174763 h=96", "b * h: has 16777248, needs at most 16777215"},
                             {"kda_decode b=1 h=1", "arch: has gfx950, needs gfx942"}});
}

TEST(KdaDecodeHip, TheReciprocalDivides) {
  for (const uint32_t heads : {1u, 2u, 3u, 12u, 96u, 127u, 65537u, 131072u}) {
    const auto reciprocal = static_cast<uint64_t>(0xffffffffLL / heads);
    for (uint64_t row : {0u, 1u, 2u, 1000u, 0xffffffffu / heads - 1}) {
      for (const uint64_t item : {row * heads, row * heads + heads - 1}) {
        const uint64_t estimate = (item * reciprocal) >> 32;
        EXPECT_LE(estimate, row) << item << " / " << heads;
        EXPECT_GE(estimate + 1, row) << item << " / " << heads;
      }
    }
  }
}

/// Device of the stand-in by its architecture; the test is skipped where there is none.
class OnStandIn : public testing::Test {
 protected:
  void SetUp() override {
    if (!in_host_memory({DeviceKind::hip, 0})) GTEST_SKIP() << "the stand-in is not the HIP runtime of this process";
  }
};

// 7: of the stand-in's graphs: other slots, other inputs, more and fewer padding rows
TEST_F(OnStandIn, AGraphFollowsItsMemory) {
  expect_replays_follow_memory<KdaDecodeCase>("kda_decode b=4 h=2 slots=9 padded=1",
                                              {"kda_decode b=4 h=2 slots=9", "kda_decode b=4 h=2 slots=9 padded=2"},
                                              kda_decode);
}

TEST_F(OnStandIn, BothArchitectures) {
  for (int index = 0; index < 2; ++index) {
    for (const char* line : {"kda_decode b=3 h=5 bias=1 padded=1", "kda_decode b=2 h=3 state=bf16 layout=ds"}) {
      KdaDecodeCase c(problem_of(line), 31);
      const char* kernel = index == 0 ? "hip_gfx942_heads" : "hip_gfx950_heads";
      DeviceFacts facts;
      if (!device_facts({DeviceKind::hip, index}, &facts).ok()) continue;  // no code was built for it
      const uint64_t before = runs_of("kda_decode", kernel);
      const Status status = c.run({DeviceKind::hip, index}, {});
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(runs_of("kda_decode", kernel), before + 1);
      const Verdict verdict = c.verify();
      EXPECT_TRUE(verdict.ok) << verdict.detail;
    }
  }
}

TEST_F(OnStandIn, AFaultOfTheKernelIsAnError) {
  KdaDecodeCase c(problem_of("kda_decode b=2 h=2 state_align=4"), 32);
  ASSERT_TRUE(c.upload({DeviceKind::hip, 0}).ok());
  KdaDecodeProblem lie = c.problem;
  lie.state_align = 16;
  const Status status = kda_decode_hip_heads::launch_gfx942(lie, c.args(), {});
  EXPECT_EQ(status.code(), StatusCode::device_error);
  EXPECT_EQ(status.message().substr(0, 63), "kda_decode: kernel hip_gfx942_heads: launch: a misaligned load ");
}

TEST_F(OnStandIn, WrongLaunchesAreErrors) {
  constexpr gpu::KernelName kName{"op", "kernel"};
  constexpr Device kDevice{DeviceKind::hip, 0};
  const std::byte args[8] = {};
  hip::Function unknown("kda_decode", "no_such_kernel");
  EXPECT_EQ(hip::launch_raw(kName, unknown, {1, 256}, kDevice, nullptr, args, 8).message(),
            "op: kernel kernel: no_such_kernel: no such kernel (error 500)");
  hip::Function absent("no_such_object", "kda_decode_hip_heads_f32");
  EXPECT_EQ(hip::launch_raw(kName, absent, {1, 256}, kDevice, nullptr, args, 8).message().substr(0, 33),
            "op: kernel kernel: no code for gf");
  hip::Function function("kda_decode", "kda_decode_hip_heads_f32");
  EXPECT_EQ(hip::launch_raw(kName, function, {1, 256}, kDevice, nullptr, args, 8).message(),
            "op: kernel kernel: launch: invalid argument (error 1)");
  EXPECT_EQ(hip::launch_raw(kName, function, {1, 128}, kDevice, nullptr, args, 8).message(),
            "op: kernel kernel: launch: invalid configuration (error 9)");
  EXPECT_EQ(hip::launch_raw(kName, function, {1 << 24, 256}, kDevice, nullptr, args, 8).message(),
            "op: kernel kernel: grid: has 16777216 workgroups, needs 1..16777215");
  EXPECT_EQ(hip::launch_raw(kName, function, {1, 256}, {DeviceKind::hip, 3}, nullptr, args, 8).message(),
            "hip: device: invalid device (error 101)");
}

TEST_F(OnStandIn, CodeOfAnotherArchitectureIsRefused) {
  const hip::CodeObject* object = hip::find_code_object("kda_decode", "gfx950");
  if (object == nullptr) GTEST_SKIP() << "gfx950 was not built";
  void* module = nullptr;
  const hip::DeviceScope scope(0);
  EXPECT_EQ(hip::runtime()->module_load_data(&module, object->image.data()), hip::kNoBinaryForGpu);
}

TEST_F(OnStandIn, TheCurrentDeviceStays) {
  ASSERT_EQ(hip::runtime()->set_device(1), hip::kSuccess);
  KdaDecodeCase c(problem_of("kda_decode b=1 h=1"), 33);
  ASSERT_TRUE(c.run({DeviceKind::hip, 0}, {}).ok());
  int current = 0;
  ASSERT_EQ(hip::runtime()->get_device(&current), hip::kSuccess);
  EXPECT_EQ(current, 1);
  ASSERT_EQ(hip::runtime()->set_device(0), hip::kSuccess);
}

}  // namespace
}  // namespace silt
