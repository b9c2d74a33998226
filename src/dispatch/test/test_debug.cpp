// The debug mode; the test program is run with SILT_DEBUG=1.
#include <gtest/gtest.h>

#include <limits>

#include "attn_res/cases.hpp"
#include "attn_res/two_phase/cases.hpp"
#include "core/environment.hpp"
#include "kda/conv_update/cases.hpp"
#include "kda/decode/cases.hpp"
#include "kda/gated_norm/cases.hpp"
#include "kda/prefill/cases.hpp"
#include "kda/recurrence/cases.hpp"
#include "proof/room_test.hpp"

namespace silt {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(DebugMode, IsOn) { ASSERT_TRUE(environment().debug) << "run this with SILT_DEBUG=1"; }

/// A case that is right, with one mistake of a caller, is refused with this text on every kernel at hand, and nothing
/// that the call writes has changed.
template <class Case>
void expect_told(const char* line, void (*mistake)(Case&), const std::string& text) {
  Case c(parsed<decltype(Case::problem)>(line), 1);
  for (const bool wrong : {false, true}) {
    if (wrong) mistake(c);
    for (const KernelHere& here : kernels_here(std::string(line).substr(0, std::string(line).find(' ')))) {
      Case now = c;
      const Status status = now.run(here.device, {.policy = Policy::require(here.kernel)});
      if (!wrong) {
        EXPECT_TRUE(status.ok()) << line << " on " << here.kernel << ": " << status.message();
        continue;
      }
      EXPECT_EQ(status.code(), StatusCode::invalid_argument) << line;
      EXPECT_EQ(status.message(), text) << here.kernel;
      ASSERT_TRUE(now.download().ok());
      Case before = c;
      ASSERT_TRUE(before.upload({}).ok());
      for (size_t i = 0; i < now.tensors().size(); ++i) {
        const auto same = [&](Case& of) { return of.tensors()[i].tensor->bytes(); };
        EXPECT_EQ(same(now), same(before)) << now.tensors()[i].name;
      }
    }
  }
}

TEST(DebugMode, IndicesAreOfThePoolAndUnique) {
  expect_told<KdaDecodeCase>(
      "kda_decode b=4 h=1 padded=1", [](KdaDecodeCase& c) { c.state_indices.set_int(1, 5); },
      "kda_decode: state_indices[1]: has 5, needs less than 5 slots");
  expect_told<KdaDecodeCase>(
      "kda_decode b=4 h=1", [](KdaDecodeCase& c) { c.state_indices.set_int(3, c.state_indices.get_int(1)); },
      "kda_decode: state_indices[3]: has 1, needs a slot of its own, this is that of [1]");
  expect_told<CausalConv1dUpdateCase>(
      "causal_conv1d_update b=3 c=96 null=-1", [](CausalConv1dUpdateCase& c) { c.state_indices.set_int(2, 7); },
      "causal_conv1d_update: state_indices[2]: has 7, needs less than 4 slots");
  expect_told<KdaRecurrenceCase>(
      "kda_recurrence seqs=2x3 h=1 columns=3",
      [](KdaRecurrenceCase& c) { c.state_indices.set_int(4, c.state_indices.get_int(2)); },
      "kda_recurrence: state_indices[1, 1]: has 5, needs a slot of its own, this is that of [0, 2]");
}

TEST(DebugMode, ValuesAreFinite) {
  expect_told<AttnResCase>(
      "attn_res t=3 n=2 d=256 r=4", [](AttnResCase& c) { c.blocks.set((4 + 1) * 256 + 7, kNaN); },
      "attn_res: blocks[1, 1, 7]: has nan, needs a finite number");
  expect_told<AttnResCase>(
      "attn_res t=3 n=2 d=256", [](AttnResCase& c) { c.delta.set(2 * 256 + 5, kInf); },
      "attn_res: delta[2, 5]: has inf, needs a finite number");
  expect_told<AttnResPartialsCase>(
      "attn_res_partials t=2 q=2 n=3 d=256", [](AttnResPartialsCase& c) { c.qk_weight.set(256 + 3, kNaN); },
      "attn_res_partials: qk_weight[1, 3]: has nan, needs a finite number");
  expect_told<AttnResMergeCase>(
      "attn_res_merge t=2 d=256", [](AttnResMergeCase& c) { c.statistics.set(3, -kInf); },
      "attn_res_merge: statistics[1, 1]: has -inf, needs a finite number");
  expect_told<KdaDecodeCase>(
      "kda_decode b=3 h=2 padded=1",
      [](KdaDecodeCase& c) { c.state.set(((c.state_indices.get_int(1) * 2 + 1) * 128 + 3) * 128 + 9, kNaN); },
      "kda_decode: state[2, 1, 3, 9]: has nan, needs a finite number");
  expect_told<KdaPrefillCase>(
      "kda_prefill seqs=2x16 h=1 initial=1", [](KdaPrefillCase& c) { c.raw_gate.set(4 * 128 + 1, kNaN); },
      "kda_prefill: raw_gate[4, 0, 1]: has nan, needs a number");
  expect_told<RmsNormGatedCase>(
      "rms_norm_gated t=2 h=2", [](RmsNormGatedCase& c) { c.x.set(300, kInf); },
      "rms_norm_gated: x[1, 0, 44]: has inf, needs a finite number");
}

TEST(DebugMode, PaddingMayHoldAnything) {
  // Poison, which is NaN, in rows that are padding and in slots that nobody reads.
  for (const char* line : {"kda_prefill seqs=3x6 h=1 padded=1 lengths=ragged t=20 initial=1",
                           "kda_recurrence seqs=3x6 h=1 padded=1 lengths=ragged t=20", "kda_decode b=5 h=1 padded=1"}) {
    CheckResult result;
    const Status status = check(line, "cpu_plain_rows", {}, 1, &result);
    EXPECT_TRUE(status.ok() && result.passed) << line << ": " << status.message() << result.detail;
  }
}

}  // namespace
}  // namespace silt
