// The chain's operators on AMD devices that are not here: which kernel takes a call. Their cases run on the stand-in
// (gpu/hip/shim) in the rooms' own tests.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "silt/check.hpp"
#include "silt/choose.hpp"
#include "silt/device.hpp"

#include "kda/conv_update/cases.hpp"
#include "kda/gated_norm/cases.hpp"
#include "kda/recurrence/cases.hpp"
#include "proof/hip_graph.hpp"
#include "proof/room_test.hpp"

namespace silt {
namespace {

constexpr const char* kDevices[] = {"mi300x", "mi325x", "mi355x"};

/// The kernel taken, or why none is.
std::string chosen(const std::string& line, const char* device) {
  DeviceFacts facts;
  EXPECT_TRUE(canned_facts(device, &facts).ok());
  Explanation explanation;
  const Status status = explain(line, facts, {}, &explanation);
  return status.ok() ? explanation.kernel : explanation.table;
}

std::string wanted(const char* device, std::string_view idea) {
  return fmt::format("hip_{}_{}", std::string_view(device) == "mi355x" ? "gfx950" : "gfx942", idea);
}

TEST(KdaChainHip, EveryCallIsNative) {
  for (const auto& [op, idea] :
       {std::pair{"causal_conv1d_update", "channels"}, {"kda_recurrence", "rows"}, {"rms_norm_gated", "rows"}}) {
    expect_native_on_amd(op, idea, [](const std::string&, const Explanation&) {});
  }
}

TEST(KdaChainHip, EveryHeadCount) {
  for (const char* device : kDevices) {
    for (int h = 1; h <= 128; ++h) {
      EXPECT_EQ(chosen(fmt::format("causal_conv1d_update b=3 c={}", 384 * h), device), wanted(device, "channels"));
      EXPECT_EQ(chosen(fmt::format("kda_recurrence seqs=3x1 h={} offsets=0", h), device), wanted(device, "rows"));
      EXPECT_EQ(chosen(fmt::format("kda_decode b=3 h={}", h), device), wanted(device, "heads"));
      EXPECT_EQ(chosen(fmt::format("rms_norm_gated t=3 h={}", h), device), wanted(device, "rows"));
    }
  }
}

TEST(KdaChainHip, RefusalsSayWhatIsNeeded) {
  expect_refusals("mi355x",
                  {{"causal_conv1d_update b=1 c=536870913", "c: has 536870913, needs less than 536870912"},
                   {"causal_conv1d_update b=16777216 c=3", "b * ceil(c / 256): has 16777216, needs at most 16777215"},
                   {"kda_recurrence seqs=1x1 h=131073", "h: has 131073, needs at most 131072"},
                   {"kda_recurrence seqs=174763x1 h=96 offsets=0", "n * h: has 16777248, needs at most 16777215"},
                   {"rms_norm_gated t=2796203 h=96", "t * h: has 268435488, needs at most 268435440"},
                   {"rms_norm_gated t=1 h=1", "arch: has gfx950, needs gfx942"}});
}

// 7: of the stand-in's graphs: other slots, other inputs, more and fewer padding rows
TEST(OnStandIn, AGraphFollowsItsMemory) {
  if (!in_host_memory({DeviceKind::hip, 0})) GTEST_SKIP() << "the stand-in is not the HIP runtime of this process";
  expect_replays_follow_memory<CausalConv1dUpdateCase>(
      "causal_conv1d_update b=4 c=96 slots=9 padded=1",
      {"causal_conv1d_update b=4 c=96 slots=9", "causal_conv1d_update b=4 c=96 slots=9 padded=2"},
      causal_conv1d_update);
  expect_replays_follow_memory<KdaRecurrenceCase>(
      "kda_recurrence seqs=3x2 h=1 slots=9 padded=1",
      {"kda_recurrence seqs=3x2 h=1 slots=9", "kda_recurrence seqs=3x2 h=1 slots=9 t=6 lengths=ragged padded=1"},
      kda_recurrence);
  expect_replays_follow_memory<RmsNormGatedCase>("rms_norm_gated t=5 h=2", {"rms_norm_gated t=5 h=2"}, rms_norm_gated);
}

}  // namespace
}  // namespace silt
