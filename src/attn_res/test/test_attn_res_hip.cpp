// attn_res on AMD devices without one: what a device takes, and, where the stand-in answers (gpu/hip/shim), what plans
// of other devices do. Every case of the operator runs there in test_attn_res.cpp as well.
#include <gtest/gtest.h>

#include "attn_res/cases.hpp"
#include "attn_res/hip/hip_rows.hpp"
#include "proof/hip_graph.hpp"
#include "proof/room_test.hpp"

namespace silt {
namespace {

constexpr auto problem_of = parsed<AttnResProblem>;

TEST(AttnResHip, EveryCallIsNative) {
  expect_native_on_amd("attn_res", "rows", [](const std::string&, const Explanation&) {});
}

TEST(AttnResHip, RowsOfKimiSizeAreHeld) {
  for (const char* device : {"mi300x", "mi355x"}) {
    DeviceFacts facts;
    ASSERT_TRUE(canned_facts(device, &facts).ok());
    for (int n = 0; n <= 8; ++n) {
      for (const char* keys : {"", " delta=0", " norm=0", " delta=0 norm=0"}) {
        for (const bool write : {false, true}) {
          const std::string line =
              fmt::format("attn_res t=3 n={} d=7168{}{}", n, keys, write ? fmt::format(" write={}", n) : "");
          Explanation explanation;
          ASSERT_TRUE(explain(line, facts, {}, &explanation).ok()) << line;
          EXPECT_EQ(explanation.plan, "14 waves a token, 1 tokens a workgroup, rows in registers") << line;
        }
      }
    }
  }
}

TEST(AttnResHip, RefusalsSayWhatIsNeeded) {
  expect_refusals("mi355x", {{"attn_res t=4 n=2 d=256 dtype=f32", "dtype: has f32, needs bf16"},
                             {"attn_res t=4194304 n=2 d=256", "tokens: has 4194304, needs at most 4194303"},
                             {"attn_res t=1 n=2048 d=8", "num_blocks: has 2048, needs at most 2047"},
                             {"attn_res t=1 n=0 d=1073741825", "hidden size: has 1073741825, needs at most 1073741824"},
                             {"attn_res t=1 n=1 d=8", "arch: has gfx950, needs gfx942"}});
}

TEST(AttnResHip, PlansFitTheKernels) {
  using namespace attn_res_hip_rows;  // NOLINT(google-build-using-namespace)
  for (const int64_t d : {8, 504, 512, 520, 1024, 1032, 2304, 7168, 8184, 8192, 8200}) {
    for (const int64_t t : {1, 303, 304, 1216, 100000}) {
      const AttnResProblem problem = problem_of(fmt::format("attn_res t={} n=8 d={}", t, d));
      const Plan plan = choose_plan(problem, 304);
      EXPECT_EQ(plan.held, d <= 8192);
      EXPECT_LE(threads(plan), 1024);
      if (!plan.held) continue;
      EXPECT_GE(plan.waves_per_token * 512, d);
      EXPECT_LT((plan.waves_per_token - 1) * 512, d);
      EXPECT_TRUE(plan.tokens_per_group == 1 || t / plan.tokens_per_group >= 304) << "idle processors";
    }
  }
}

class OnStandIn : public testing::Test {
 protected:
  void SetUp() override {
    if (!in_host_memory({DeviceKind::hip, 0})) GTEST_SKIP() << "the stand-in is not the HIP runtime of this process";
  }
};

// 7: of the stand-in's graphs
TEST_F(OnStandIn, AGraphFollowsItsMemory) {
  for (const char* line : {"attn_res t=5 n=3 d=256 write=3", "attn_res t=2 n=9 d=264"}) {
    expect_replays_follow_memory<AttnResCase>(line, {line, line}, attn_res);
  }
}

// 36b: tokens that share a workgroup, also where the last workgroup has fewer, have the bits of tokens alone.
TEST_F(OnStandIn, PackedTokensAreTheSame) {
  using namespace attn_res_hip_rows;  // NOLINT(google-build-using-namespace)
  for (const auto& [index, kernel] : {std::pair{0, "hip_gfx942_rows"}, {1, "hip_gfx950_rows"}}) {
    const Device device{DeviceKind::hip, index};
    for (const char* line :
         {"attn_res t=5 n=3 d=256 write=3", "attn_res t=3 n=8 d=1000", "attn_res t=6 n=0 d=504 delta=0"}) {
      AttnResCase alone(problem_of(line), 3);
      AttnResCase packed = alone;
      ASSERT_TRUE(alone.run(device, {}).ok());
      ASSERT_TRUE(packed.upload(device).ok());
      const Plan plan = choose_plan(packed.problem, 1);
      ASSERT_GT(plan.tokens_per_group, 1);
      ASSERT_NE(packed.problem.t % plan.tokens_per_group, 0);
      const Status status = launch_plan(kernel, plan, packed.problem, packed.args(), {});
      ASSERT_TRUE(status.ok()) << status.message();
      ASSERT_TRUE(packed.download().ok());
      const Verdict verdict = packed.verify();
      EXPECT_TRUE(verdict.ok) << verdict.detail;
      for (auto tensor : {&AttnResCase::output, &AttnResCase::prefix, &AttnResCase::blocks}) {
        EXPECT_TRUE(expect_bitwise("packed", (packed.*tensor).bytes(), (alone.*tensor).bytes()).ok) << line;
      }
    }
  }
}

/// The number of waves of every hidden size that rows are held for, and the first beyond; blocks beyond eight.
TEST_F(OnStandIn, SizesAroundTheLimits) {
  for (const char* line : {"attn_res t=2 n=1 d=512", "attn_res t=2 n=1 d=520", "attn_res t=1 n=2 d=8192",
                           "attn_res t=1 n=2 d=8200", "attn_res t=2 n=9 d=264", "attn_res t=2 n=15 d=40",
                           "attn_res t=2 n=16 d=40", "attn_res t=2 n=0 d=2056 align=2 write=0"}) {
    AttnResCase c(problem_of(line), 4);
    const Status status = c.run({DeviceKind::hip, 0}, {});
    ASSERT_TRUE(status.ok()) << status.message();
    const Verdict verdict = c.verify();
    EXPECT_TRUE(verdict.ok) << line << ": " << verdict.detail;
  }
}

}  // namespace
}  // namespace silt
