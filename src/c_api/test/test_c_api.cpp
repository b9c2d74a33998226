// The C ABI: every field arrives where it belongs, structures of other sizes, values that C++ types cannot have.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <thread>

#include "silt/silt.h"

#include "attn_res/cases.hpp"
#include "attn_res/two_phase/cases.hpp"
#include "c_api/read_struct.hpp"
#include "core/environment.hpp"
#include "kda/conv_update/cases.hpp"
#include "kda/decode/cases.hpp"
#include "kda/gated_norm/cases.hpp"
#include "kda/prefill/cases.hpp"
#include "kda/recurrence/cases.hpp"
#include "proof/kernels_here.hpp"

namespace silt {
namespace {

silt_tensor to_c(const ConstTensorView& view) {
  silt_tensor tensor{};
  tensor.data = const_cast<void*>(view.data);
  tensor.dtype = static_cast<int32_t>(view.dtype);
  tensor.rank = view.rank;
  std::copy(view.shape.begin(), view.shape.end(), tensor.shape);
  std::copy(view.stride.begin(), view.stride.end(), tensor.stride);
  tensor.device_kind = static_cast<int32_t>(view.device.kind);
  tensor.device_index = view.device.index;
  return tensor;
}

template <class Case>
Case case_of(const char* text, uint64_t seed) {
  ProblemLine line;
  decltype(Case::problem) problem;
  Status status = parse_line(text, &line);
  if (status.ok()) status = decltype(Case::problem)::parse(line, &problem);
  EXPECT_TRUE(status.ok()) << status.message();
  return Case(problem, seed);
}

/// The case as the C++ tests make it, run through C and compared with the reference: a field that went astray shows.
template <class Case, class Run>
void expect_right(Case c, Run&& run) {
  ASSERT_TRUE(c.upload({}).ok());
  const silt_status status = run(c.args());
  ASSERT_EQ(status, SILT_OK) << silt_last_error();
  ASSERT_TRUE(c.download().ok());
  const Verdict verdict = c.verify();
  EXPECT_TRUE(verdict.ok) << verdict.detail;
}

silt_attn_res_args to_c(const AttnResArgs& from) {
  silt_attn_res_args args = silt_attn_res_defaults();
  args.prefix = to_c(from.prefix);
  args.delta = to_c(from.delta);
  args.blocks = to_c(from.blocks);
  args.norm_weight = to_c(from.norm_weight);
  args.qk_weight = to_c(from.qk_weight);
  args.output_norm_weight = to_c(from.output_norm_weight);
  args.num_blocks = from.num_blocks;
  args.block_write_idx = from.block_write_idx;
  args.eps = from.eps;
  args.output_norm_eps = from.output_norm_eps;
  args.output = to_c(from.output);
  args.stable_blocks = from.stable_blocks;
  return args;
}

TEST(Fields, AttnRes) {
  auto c = case_of<AttnResCase>("attn_res t=3 n=3 d=256 write=4 r=6 stable=1", 1);
  c.eps = 0.5F;
  c.output_norm_eps = 2.0F;
  expect_right(c, [](const AttnResArgs& args) {
    const silt_attn_res_args c_args = to_c(args);
    return silt_attn_res(&c_args, nullptr);
  });
}

TEST(Fields, AttnResPartials) {
  auto c = case_of<AttnResPartialsCase>("attn_res_partials t=3 q=2 n=3 d=256 r=6 stable=1", 1);
  c.eps = 0.5F;
  expect_right(c, [](const AttnResPartialsArgs& from) {
    silt_attn_res_partials_args args = silt_attn_res_partials_defaults();
    args.blocks = to_c(from.blocks);
    args.norm_weight = to_c(from.norm_weight);
    args.qk_weight = to_c(from.qk_weight);
    args.num_blocks = from.num_blocks;
    args.statistics = to_c(from.statistics);
    args.mix = to_c(from.mix);
    args.stable_blocks = 4;
    EXPECT_EQ(silt_attn_res_partials(&args, nullptr), SILT_INVALID_ARGUMENT);
    EXPECT_STREQ(silt_last_error(), "attn_res_partials: stable_blocks: has 4, needs -1..3 (num_blocks)");
    args.stable_blocks = from.stable_blocks;
    args.eps = from.eps;
    args.reserved = 1;
    EXPECT_EQ(silt_attn_res_partials(&args, nullptr), SILT_INVALID_ARGUMENT);
    args.reserved = 0;
    return silt_attn_res_partials(&args, nullptr);
  });
}

TEST(Fields, AttnResMerge) {
  for (const char* line : {"attn_res_merge t=3 d=256 write=1 stable=1", "attn_res_merge t=2 d=64 partial=f32"}) {
    auto c = case_of<AttnResMergeCase>(line, 1);
    c.eps = 0.5F;
    c.output_norm_eps = 2.0F;
    expect_right(c, [](const AttnResMergeArgs& from) {
      silt_attn_res_merge_args args = silt_attn_res_merge_defaults();
      args.prefix = to_c(from.prefix);
      args.delta = to_c(from.delta);
      args.statistics = to_c(from.statistics);
      args.mix = to_c(from.mix);
      args.slot = to_c(from.slot);
      args.norm_weight = to_c(from.norm_weight);
      args.qk_weight = to_c(from.qk_weight);
      args.output_norm_weight = to_c(from.output_norm_weight);
      args.eps = from.eps;
      args.output_norm_eps = from.output_norm_eps;
      args.output = to_c(from.output);
      args.stable_partials = 2;
      EXPECT_EQ(silt_attn_res_merge(&args, nullptr), SILT_INVALID_ARGUMENT);
      EXPECT_STREQ(silt_last_error(), "attn_res_merge: stable_partials: has 2, needs 0..1");
      args.stable_partials = from.stable_partials ? 1 : 0;
      return silt_attn_res_merge(&args, nullptr);
    });
  }
}

/// Fields that decode and prefill have alike, and those that they share with the recurrence.
template <class CArgs, class Args>
void fill_step(const Args& from, CArgs& args) {
  args.x = to_c(from.x);
  args.conv_weight = to_c(from.conv_weight);
  args.conv_bias = to_c(from.conv_bias);
  args.conv_state = to_c(from.conv_state);
  args.output_gate = to_c(from.output_gate);
  args.norm_weight = to_c(from.norm_weight);
  args.norm_eps = from.norm_eps;
}

template <class CArgs, class Args>
void fill_state(const Args& from, CArgs& args) {
  args.raw_gate = to_c(from.raw_gate);
  args.raw_beta = to_c(from.raw_beta);
  args.A_log = to_c(from.A_log);
  args.dt_bias = to_c(from.dt_bias);
  args.state_indices = to_c(from.state_indices);
  args.state = to_c(from.state);
  args.safe_gate = from.safe_gate ? 1 : 0;
  args.lower_bound = from.lower_bound;
  args.output = to_c(from.output);
  args.null_slot = from.null_slot;
}

TEST(Fields, KdaDecode) {
  for (const char* line :
       {"kda_decode b=5 h=3 bias=1 lower_bound=-0.5 padded=2", "kda_decode b=4 h=2 gate=softplus null=-1"}) {
    auto c = case_of<KdaDecodeCase>(line, 1);
    c.norm_eps = 0.5F;
    expect_right(c, [](const KdaDecodeArgs& from) {
      silt_kda_decode_args args = silt_kda_decode_defaults();
      fill_step(from, args);
      fill_state(from, args);
      return silt_kda_decode(&args, nullptr);
    });
  }
}

TEST(Fields, KdaPrefill) {
  for (const char* line : {"kda_prefill seqs=3x4 h=2 initial=1 bias=1 lengths=ragged padded=1 t=14",
                           "kda_prefill seqs=2x3 h=2 gate=softplus null=-1"}) {
    auto c = case_of<KdaPrefillCase>(line, 1);
    c.norm_eps = 0.5F;
    expect_right(c, [](const KdaPrefillArgs& from) {
      silt_kda_prefill_args args = silt_kda_prefill_defaults();
      fill_step(from, args);
      fill_state(from, args);
      args.offsets = to_c(from.offsets);
      args.has_initial_state = to_c(from.has_initial_state);
      return silt_kda_prefill(&args, nullptr);
    });
  }
}

TEST(Fields, CausalConv1dUpdate) {
  auto c = case_of<CausalConv1dUpdateCase>("causal_conv1d_update b=4 n=3 c=384 bias=1 padded=1 null=-1", 1);
  expect_right(c, [](const CausalConv1dUpdateArgs& from) {
    silt_causal_conv1d_update_args args = silt_causal_conv1d_update_defaults();
    args.x = to_c(from.x);
    args.weight = to_c(from.weight);
    args.bias = to_c(from.bias);
    args.conv_state = to_c(from.conv_state);
    args.state_indices = to_c(from.state_indices);
    args.output = to_c(from.output);
    args.null_slot = from.null_slot;
    const silt_status status = silt_causal_conv1d_update(&args, nullptr);
    args.reserved = 1;
    EXPECT_EQ(silt_causal_conv1d_update(&args, nullptr), SILT_INVALID_ARGUMENT);
    return status;
  });
}

TEST(Fields, KdaRecurrence) {
  for (const char* line :
       {"kda_recurrence seqs=3x4 h=2 lengths=ragged padded=1 t=14 lower_bound=-1",
        "kda_recurrence seqs=3x1 h=2 offsets=0 gate=softplus null=-1", "kda_recurrence seqs=3x2 h=2 columns=3"}) {
    expect_right(case_of<KdaRecurrenceCase>(line, 1), [](const KdaRecurrenceArgs& from) {
      silt_kda_recurrence_args args = silt_kda_recurrence_defaults();
      fill_state(from, args);
      args.q = to_c(from.q);
      args.k = to_c(from.k);
      args.v = to_c(from.v);
      args.offsets = to_c(from.offsets);
      args.accepted = to_c(from.accepted);
      return silt_kda_recurrence(&args, nullptr);
    });
  }
}

TEST(Fields, RmsNormGated) {
  for (const char* line : {"rms_norm_gated t=3 h=2", "rms_norm_gated t=3 h=2 act=silu"}) {
    auto c = case_of<RmsNormGatedCase>(line, 1);
    c.eps = 0.5F;
    expect_right(c, [](const RmsNormGatedArgs& from) {
      silt_rms_norm_gated_args args = silt_rms_norm_gated_defaults();
      args.x = to_c(from.x);
      args.gate = to_c(from.gate);
      args.weight = to_c(from.weight);
      args.eps = from.eps;
      args.activation = static_cast<int32_t>(from.activation);
      args.output = to_c(from.output);
      const silt_status status = silt_rms_norm_gated(&args, nullptr);
      args.activation = 2;
      EXPECT_EQ(silt_rms_norm_gated(&args, nullptr), SILT_INVALID_ARGUMENT);
      EXPECT_STREQ(silt_last_error(), "rms_norm_gated: activation: has 2, needs 0..1");
      return status;
    });
  }
}

TEST(Launch, ReachesTheCall) {
  auto c = case_of<AttnResCase>("attn_res t=2 n=2 d=64", 2);
  silt_launch launch = silt_launch_defaults();
  launch.policy = SILT_REQUIRE;
  launch.kernel = "cpu_reference";
  launch.threads = 1;
  uint64_t before = 0;
  uint64_t after = 0;
  ASSERT_EQ(silt_kernel_runs("attn_res", "cpu_reference", &before, nullptr), SILT_OK);
  expect_right(c, [&](const AttnResArgs& args) {
    const silt_attn_res_args c_args = to_c(args);
    return silt_attn_res(&c_args, &launch);
  });
  ASSERT_EQ(silt_kernel_runs("attn_res", "cpu_reference", &after, nullptr), SILT_OK);
  EXPECT_EQ(after, before + 1);
  EXPECT_EQ(after, runs_of("attn_res", "cpu_reference"));
}

TEST(Launch, AsksForTheDebugMode) {
  auto c = case_of<AttnResCase>("attn_res t=2 n=2 d=64", 2);
  c.prefix.set(70, std::numeric_limits<float>::quiet_NaN());
  ASSERT_TRUE(c.upload({}).ok());
  const silt_attn_res_args args = to_c(c.args());
  silt_launch launch = silt_launch_defaults();
  launch.debug = 1;
  EXPECT_EQ(silt_attn_res(&args, &launch), SILT_INVALID_ARGUMENT);
  EXPECT_STREQ(silt_last_error(), "attn_res: prefix[1, 6]: has nan, needs a finite number");
  launch.debug = 2;
  EXPECT_EQ(silt_attn_res(&args, &launch), SILT_INVALID_ARGUMENT);
  EXPECT_STREQ(silt_last_error(), "attn_res: launch.debug: has 2, needs 0..1");
  launch.debug = 1;
  launch.struct_size = offsetof(silt_launch, debug);  // of a caller that does not know the field
  EXPECT_EQ(silt_attn_res(&args, &launch), environment().debug ? SILT_INVALID_ARGUMENT : SILT_OK);
  launch = silt_launch_defaults();
  launch.reserved = 1;
  EXPECT_EQ(silt_attn_res(&args, &launch), SILT_INVALID_ARGUMENT);
}

TEST(Refusals, SayWhatIsWrong) {
  auto c = case_of<AttnResCase>("attn_res t=2 n=2 d=64", 3);
  ASSERT_TRUE(c.upload({}).ok());
  const silt_attn_res_args good = to_c(c.args());
  const auto expect_refused = [](const silt_attn_res_args& args, const silt_launch* launch, const std::string& text) {
    EXPECT_EQ(silt_attn_res(&args, launch), SILT_INVALID_ARGUMENT);
    EXPECT_EQ(silt_last_error(), text);
  };
  silt_attn_res_args args = good;
  args.struct_size = 0;
  expect_refused(
      args, nullptr,
      fmt::format("attn_res: struct_size: has 0, needs {} (sizeof, as the defaults function sets it)", sizeof args));
  args = good;
  args.prefix.dtype = 9;
  expect_refused(args, nullptr, "attn_res: prefix.dtype: has 9, needs 1..3");
  args = good;
  args.blocks.rank = 5;
  expect_refused(args, nullptr, "attn_res: blocks.rank: has 5, needs 0..4");
  args = good;
  args.output.device_kind = -1;
  expect_refused(args, nullptr, "attn_res: output.device_kind: has -1, needs 0..2");
  silt_launch launch = silt_launch_defaults();
  launch.pdl = 3;
  expect_refused(good, &launch, "attn_res: launch.pdl: has 3, needs 0..2");
  launch = silt_launch_defaults();
  launch.policy = SILT_REQUIRE;
  expect_refused(good, &launch, "attn_res: launch.kernel: is null, needs a name with this policy");
  args = good;
  args.num_blocks = 3;
  expect_refused(args, nullptr, "attn_res: num_blocks: has 3, needs 0..2 (slots of blocks)");
  EXPECT_EQ(silt_attn_res(nullptr, nullptr), SILT_INVALID_ARGUMENT);
}

TEST(Refusals, TheTextBelongsToTheThread) {
  EXPECT_EQ(silt_attn_res(nullptr, nullptr), SILT_INVALID_ARGUMENT);
  const std::string mine = silt_last_error();
  std::thread([] { EXPECT_STREQ(silt_last_error(), ""); }).join();
  EXPECT_EQ(silt_last_error(), mine);
}

/// A structure as an older, this, and a newer version of a library may have it.
struct Old {
  size_t struct_size = sizeof(Old);
  int64_t a = 1;
};
struct Own {
  size_t struct_size = sizeof(Own);
  int64_t a = 2;
  int64_t b = 3;
};
struct New {
  size_t struct_size = sizeof(New);
  int64_t a = 4;
  int64_t b = 5;
  int64_t c = 0;
};

Status read(const void* given, size_t known, Own* own) {
  return read_struct("toy", static_cast<const Own*>(given), known, own);
}

TEST(StructSize, AnOlderCallerGetsZeros) {
  Own own;
  const Old old;
  ASSERT_TRUE(read(&old, sizeof(Own), &own).ok());
  EXPECT_EQ(own.a, 1);
  EXPECT_EQ(own.b, 0);
}

TEST(StructSize, ANewerCallerIsTakenWhereItsNewFieldsAreZero) {
  Own own;
  New newer;
  ASSERT_TRUE(read(&newer, sizeof(Own), &own).ok());
  EXPECT_EQ(own.a, 4);
  EXPECT_EQ(own.b, 5);
  newer.c = 1;
  EXPECT_EQ(read(&newer, sizeof(Own), &own).message(),
            "toy: struct_size: has 32, and bytes behind 24 are not zero: silt 0.1.0 does not know these fields");
}

TEST(StructSize, AReservedFieldMustBeZero) {
  Own own;
  Own given;
  EXPECT_FALSE(read(&given, offsetof(Own, b), &own).ok());
  given.b = 0;
  EXPECT_TRUE(read(&given, offsetof(Own, b), &own).ok());
}

TEST(StructSize, AbsurdSizesAreNotRead) {
  Own own;
  Own given;
  for (const size_t size : {size_t{0}, size_t{7}, size_t{4097}, SIZE_MAX}) {
    given.struct_size = size;
    EXPECT_FALSE(read(&given, sizeof(Own), &own).ok()) << size;
  }
}

}  // namespace
}  // namespace silt
