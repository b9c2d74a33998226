// attn_res_merge: every kernel at hand, every case. The comments name the row of docs/cases.md.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "attn_res/two_phase/cases.hpp"
#include "device/facts.hpp"
#include "proof/room_test.hpp"
#include "proof/stop_when_broken.hpp"
#include "proof/time_ratio.hpp"

namespace silt {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr std::string_view kOp = "attn_res_merge";

constexpr auto problem_of = parsed<AttnResMergeProblem>;

class Numerics : public testing::TestWithParam<KernelLine> {};

TEST_P(Numerics, MatchesTheReference) { expect_right_or_refused<AttnResMergeCase>(kOp, GetParam()); }

TEST_P(Numerics, TheLineParsesBack) {
  const AttnResMergeProblem problem = problem_of(GetParam().line);
  EXPECT_EQ(problem_of(problem.line()).line(), problem.line());
}

INSTANTIATE_TEST_SUITE_P(AttnResMerge, Numerics, testing::ValuesIn(every_kernel_every_line(kOp)),
                         [](const auto& param) { return test_name(param.param.here.kernel, param.param.line); });

using EveryKernel = EveryKernelOf<AttnResMergeCase>;

class Contract : public EveryKernel {};
class Determinism : public EveryKernel {};
class Refusals : public EveryKernel {};

// 8
TEST_P(Contract, NoTokensIsSuccess) {
  AttnResMergeCase c(problem_of("attn_res_merge t=0 d=256"), 1);
  expect_right(c);
}

// 19: the partial outweighs the prefix, and the other way round
TEST_P(Contract, LogitsFarApart) {
  AttnResMergeCase c(problem_of("attn_res_merge t=2 d=256 delta=0 norm=0"), 2);
  c.prefix.fill([](int64_t) { return 0.5F; });
  c.mix.fill([](int64_t) { return 3.0F; });
  for (int64_t t = 0; t < 2; ++t) {
    c.statistics.set(2 * t, t == 0 ? 1e4F : -1e4F);
    c.statistics.set(2 * t + 1, 2.0F);
  }
  expect_right(c);
  EXPECT_EQ(c.output.get(0), 1.5F);
  EXPECT_EQ(c.output.get(256), 0.5F);
}

// 19: all sources equal, and all zero
TEST_P(Contract, EqualAndZeroSources) {
  AttnResMergeCase equal(problem_of("attn_res_merge t=2 d=1024 delta=0 norm=0"), 3);
  for (int64_t i = 0; i < equal.mix.elements(); ++i) {
    equal.prefix.set(i, static_cast<float>(i % 7) - 3);
    equal.mix.set(i, 4 * equal.prefix.get(i));
  }
  for (int64_t t = 0; t < 2; ++t) equal.statistics.set(2 * t + 1, 4.0F);
  expect_right(equal);
  EXPECT_EQ(equal.output.get(0), -3.0F);
  AttnResMergeCase nothing(problem_of("attn_res_merge t=2 d=1024"), 5);
  for (CaseTensor* tensor : {&nothing.prefix, &nothing.delta, &nothing.mix}) {
    tensor->fill([](int64_t) { return 0.0F; });
  }
  expect_right(nothing);
}

// 19: sums of squares leave the fp32 range; contract.md says what comes out
TEST_P(Contract, StatisticsOverflow) {
  AttnResMergeCase source(problem_of("attn_res_merge t=3 d=256 norm=0"), 6);
  for (int64_t i = 0; i < 256; ++i) source.prefix.set(256 + i, 1e30F);
  expect_right(source);
  EXPECT_TRUE(std::isfinite(source.output.get(256)));
  AttnResMergeCase mixture(problem_of("attn_res_merge t=3 d=256"), 7);
  mixture.mix.fill([](int64_t) { return 1e30F; });
  expect_right(mixture);
  EXPECT_EQ(mixture.output.get(0), 0.0F);
}

// 20: nothing unread reaches an output; the poison of a case is NaN everywhere outside the live elements
// 21: a NaN in a live input stays in its row
TEST_P(Contract, ANaNStaysInItsRow) {
  for (const char* which : {"prefix", "delta", "mix", "m", "s"}) {
    AttnResMergeCase c(problem_of("attn_res_merge t=5 d=512 write=1"), 8);
    const std::string name = which;
    if (name == "prefix") c.prefix.set(2 * 512 + 77, kNaN);
    if (name == "delta") c.delta.set(2 * 512 + 77, kNaN);
    if (name == "mix") c.mix.set(2 * 512 + 77, kNaN);
    if (name == "m") c.statistics.set(4, kNaN);
    if (name == "s") c.statistics.set(5, kNaN);
    expect_right(c);
    EXPECT_TRUE(std::isnan(c.output.get(2 * 512))) << which;
    EXPECT_FALSE(std::isnan(c.output.get(1 * 512))) << which;
    EXPECT_FALSE(std::isnan(c.output.get(3 * 512))) << which;
  }
}

// 23
TEST_P(Contract, EpsilonsAreUsedAndNotSwapped) {
  AttnResMergeCase c(problem_of("attn_res_merge t=3 d=256"), 9);
  c.eps = 0.7F;
  c.output_norm_eps = 3.0F;
  expect_right(c);
  c.eps = 0;
  c.output_norm_eps = 0;
  expect_right(c);
}

// 36d: a column's denormal source beside a normal one
TEST_P(Contract, Denormals) {
  AttnResMergeCase c(problem_of("attn_res_merge t=3 d=256"), 12);
  for (int64_t i = 0; i < c.mix.elements(); i += 2) c.mix.set(i, i % 4 == 0 ? 1e-39F : -3e-39F);
  expect_right(c);
}

// 36d: no slower than 1.5 times normal data
TEST_P(Contract, DenormalsCostNothing) {
  if (here().device.kind != DeviceKind::cpu || here().kernel == "cpu_reference") return;
  AttnResMergeCase normal(problem_of("attn_res_merge t=16 d=1024"), 14);
  AttnResMergeCase denormal = normal;
  for (CaseTensor* tensor : {&denormal.prefix, &denormal.delta, &denormal.mix}) {
    tensor->fill([](int64_t i) { return i % 2 == 0 ? 1e-39F : -3e-39F; });
  }
  Launch alone = launch();
  alone.threads = 1;
  const double ratio =
      time_ratio([&] { ASSERT_TRUE(normal.upload(here().device).ok() && denormal.upload(here().device).ok()); },
                 [&] { ASSERT_TRUE(attn_res_merge(denormal.args(), alone).ok()); },
                 [&] { ASSERT_TRUE(attn_res_merge(normal.args(), alone).ok()); }, 1.5);
  RecordProperty("ratio", fmt::format("{:.2f}", ratio));
  EXPECT_LE(ratio, 1.5);
}

// 12: rows more than 2^31 elements apart
TEST_P(Contract, OffsetsAre64Bit) {
  constexpr int64_t kFar = (int64_t{1} << 31) + 4096;
  if (here().device.kind != DeviceKind::cpu) return;  // a GPU needs a pool of its own
  AttnResMergeCase c(problem_of("attn_res_merge t=2 d=256 write=1"), 10);
  Buffer slot(static_cast<size_t>(kFar + 256) * sizeof(bf16));
  Buffer mix(static_cast<size_t>(kFar + 256) * sizeof(bf16));
  for (int64_t i = 0; i < 512; ++i) mix.as<bf16>()[i / 256 * kFar + i % 256] = to_bf16(c.mix.get(i));
  ASSERT_TRUE(c.upload(here().device).ok());
  AttnResMergeArgs args = c.args();
  args.slot = view(slot.as<bf16>(), {2, 256}, {kFar, 1});
  args.mix = view(mix.as<bf16>(), {2, 256}, {kFar, 1});
  ASSERT_TRUE(attn_res_merge(args, launch()).ok());
  ASSERT_TRUE(c.download().ok());
  for (int64_t i = 0; i < 512; ++i) c.slot.set(i, to_float(slot.as<bf16>()[i / 256 * kFar + i % 256]));
  const Verdict verdict = c.verify();
  EXPECT_TRUE(verdict.ok) << verdict.detail;
}

// 26
TEST_P(Determinism, AHundredRunsAreTheSame) {
  AttnResMergeCase first(problem_of("attn_res_merge t=9 d=768 write=1"), 11);
  ASSERT_TRUE(first.run(here().device, launch()).ok());
  for (int run = 0; run < 100; ++run) {
    AttnResMergeCase again(first.problem, 11);
    ASSERT_TRUE(again.run(here().device, launch()).ok());
    ASSERT_TRUE(expect_bitwise("output", again.output.bytes(), first.output.bytes()).ok) << run;
    ASSERT_TRUE(expect_bitwise("prefix", again.prefix.bytes(), first.prefix.bytes()).ok) << run;
  }
}

// 27: a row alone, at another position and among other rows has the same bits; so for every thread count
TEST_P(Determinism, ARowDependsOnItselfOnly) {
  for (const int64_t d : {256, 7168}) {
    AttnResMergeProblem problem = problem_of(fmt::format("attn_res_merge t=37 d={}", d));
    const AttnResMergeCase fresh(problem, 12);
    AttnResMergeCase many = fresh;
    ASSERT_TRUE(many.run(here().device, launch()).ok());
    for (const int64_t row : {0, 1, 17, 36}) {
      problem.t = 1;
      AttnResMergeCase alone(problem, 99);
      for (int64_t i = 0; i < d; ++i) {
        alone.prefix.set(i, fresh.prefix.get(row * d + i));
        alone.delta.set(i, fresh.delta.get(row * d + i));
        alone.mix.set(i, fresh.mix.get(row * d + i));
      }
      for (int64_t i = 0; i < 2; ++i) alone.statistics.set(i, fresh.statistics.get(2 * row + i));
      alone.norm_weight = fresh.norm_weight;
      alone.qk_weight = fresh.qk_weight;
      alone.output_norm_weight = fresh.output_norm_weight;
      ASSERT_TRUE(alone.run(here().device, launch()).ok());
      for (int64_t i = 0; i < d; ++i) ASSERT_EQ(alone.output.get(i), many.output.get(row * d + i)) << row << " " << i;
    }
    for (const int threads : {1, 2, 3, 8, 64}) {
      AttnResMergeCase split = fresh;
      Launch with = launch();
      with.threads = threads;
      ASSERT_TRUE(split.run(here().device, with).ok());
      ASSERT_TRUE(expect_bitwise("output", split.output.bytes(), many.output.bytes()).ok) << threads << " threads";
    }
  }
}

// 27: so many rows for one thread that what it writes goes past the caches; shared by more threads it stays in them
TEST_P(Determinism, RowsWrittenPastTheCachesAreTheSame) {
  if (here().device.kind != DeviceKind::cpu) return;
  constexpr int64_t kColumns = 1024;
  const int64_t rows = cpu_facts().l2_bytes / 2 / (2 * kColumns) + 8;
  AttnResMergeCase streamed(problem_of(fmt::format("attn_res_merge t={} d=1024 write=1", rows)), 21);
  AttnResMergeCase kept = streamed;
  Launch with = launch();
  with.threads = 1;
  ASSERT_TRUE(streamed.run(here().device, with).ok());
  const Verdict verdict = streamed.verify();
  EXPECT_TRUE(verdict.ok) << verdict.detail;
  with.threads = 64;
  ASSERT_TRUE(kept.run(here().device, with).ok());
  for (const auto& [a, b] : {std::pair{&streamed.output, &kept.output}, std::pair{&streamed.prefix, &kept.prefix},
                             std::pair{&streamed.slot, &kept.slot}}) {
    EXPECT_TRUE(expect_bitwise("streamed", a->bytes(), b->bytes()).ok);
  }
}

// 28
TEST_P(Determinism, TwoCallersAtOnce) {
  std::vector<std::thread> callers;
  for (uint64_t caller = 0; caller < 2; ++caller) {
    callers.emplace_back([this, caller] {
      for (int run = 0; run < 20; ++run) {
        AttnResMergeCase c(problem_of(caller == 0 ? "attn_res_merge t=40 d=512" : "attn_res_merge t=23 d=300 align=2"),
                           caller);
        const Status status = c.run(here().device, launch());
        if (status.code() == StatusCode::unsupported) return;
        ASSERT_TRUE(status.ok()) << status.message();
        const Verdict verdict = c.verify();
        ASSERT_TRUE(verdict.ok) << verdict.detail;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

// 14, 34: every wrong argument alone; nothing is written
TEST_P(Refusals, WrongArgumentsAreNamed) {
  struct Wrong {
    const char* text;
    void (*plant)(AttnResMergeArgs&);
  };
  static float some_floats[4096];
  const Wrong wrong[] = {
      {"prefix: shape: has [], needs [T, D]", [](AttnResMergeArgs& a) { a.prefix = {}; }},
      {"prefix: dtype: has i32, needs bf16 or f32", [](AttnResMergeArgs& a) { a.prefix.dtype = DType::i32; }},
      {"prefix: has a null pointer, needs 1024 elements", [](AttnResMergeArgs& a) { a.prefix.data = nullptr; }},
      {"prefix: stride of axis 0: has 255, needs at least 256", [](AttnResMergeArgs& a) { a.prefix.stride[0] = 255; }},
      {"output: absent, needs [4, 256]", [](AttnResMergeArgs& a) { a.output = {}; }},
      {"output: dtype: has f32, needs bf16", [](AttnResMergeArgs& a) { a.output.dtype = DType::f32; }},
      {"output: stride of axis 1: has 2, needs 1", [](AttnResMergeArgs& a) { a.output.stride[1] = 2; }},
      {"delta: shape: has [4, 255], needs [4, 256]", [](AttnResMergeArgs& a) { a.delta.shape[1] = 255; }},
      {"slot: dtype: has f32, needs bf16", [](AttnResMergeArgs& a) { a.slot.dtype = DType::f32; }},
      {"slot: stride of axis 0: has 200, needs at least 256", [](AttnResMergeArgs& a) { a.slot.stride[0] = 200; }},
      {"statistics: absent, needs [4, 2]", [](AttnResMergeArgs& a) { a.statistics = {}; }},
      {"statistics: dtype: has bf16, needs f32", [](AttnResMergeArgs& a) { a.statistics.dtype = DType::bf16; }},
      {"statistics: shape: has [3, 2], needs [4, 2]", [](AttnResMergeArgs& a) { a.statistics.shape[0] = 3; }},
      {"statistics: stride of axis 0: has 1, needs at least 2",
       [](AttnResMergeArgs& a) { a.statistics.stride[0] = 1; }},
      {"mix: absent, needs [4, 256]", [](AttnResMergeArgs& a) { a.mix = {}; }},
      {"mix: dtype: has i32, needs bf16 or f32", [](AttnResMergeArgs& a) { a.mix.dtype = DType::i32; }},
      {"mix: stride of axis 0: has 0, needs at least 256", [](AttnResMergeArgs& a) { a.mix.stride[0] = 0; }},
      {"norm_weight: absent, needs [256]", [](AttnResMergeArgs& a) { a.norm_weight = {}; }},
      {"norm_weight: dtype: has f32, needs bf16",
       [](AttnResMergeArgs& a) { a.norm_weight = view(some_floats, {256}); }},
      {"qk_weight: absent, needs [256]", [](AttnResMergeArgs& a) { a.qk_weight = {}; }},
      {"qk_weight: stride of axis 0: has 2, needs 1", [](AttnResMergeArgs& a) { a.qk_weight.stride[0] = 2; }},
      {"output_norm_weight: shape: has [255], needs [256]",
       [](AttnResMergeArgs& a) { a.output_norm_weight.shape[0] = 255; }},
      {"eps: has nan, needs a finite number >= 0", [](AttnResMergeArgs& a) { a.eps = kNaN; }},
      {"eps: has -1e-05, needs a finite number >= 0", [](AttnResMergeArgs& a) { a.eps = -1e-5F; }},
      {"output_norm_eps: has inf, needs a finite number >= 0",
       [](AttnResMergeArgs& a) { a.output_norm_eps = std::numeric_limits<float>::infinity(); }},
      {"output: has memory of prefix, needs memory of its own", [](AttnResMergeArgs& a) { a.output = a.prefix; }},
      {"output: has memory of slot, needs memory of its own", [](AttnResMergeArgs& a) { a.output = a.slot; }},
      {"output: has memory of mix, needs memory of its own",
       [](AttnResMergeArgs& a) { a.output.data = const_cast<void*>(a.mix.data); }},
      {"prefix: has memory of slot, needs memory of its own", [](AttnResMergeArgs& a) { a.slot = a.prefix; }},
      {"prefix: has memory of delta, needs memory of its own", [](AttnResMergeArgs& a) { a.delta = a.prefix; }},
      {"slot: has memory of mix, needs memory of its own",
       [](AttnResMergeArgs& a) { a.slot.data = const_cast<void*>(a.mix.data); }},
      {"mix: device: has ",
       [](AttnResMergeArgs& a) {
         a.mix.device = {a.mix.device.kind == DeviceKind::cpu ? DeviceKind::cuda : DeviceKind::cpu, 0};
       }},
  };
  AttnResMergeCase c(problem_of("attn_res_merge t=4 d=256 write=1"), 13);
  ASSERT_TRUE(c.upload(here().device).ok());
  const std::vector<std::byte> before[] = {c.prefix.bytes(), c.slot.bytes(), c.output.bytes()};
  for (const Wrong& w : wrong) {
    AttnResMergeArgs args = c.args();
    w.plant(args);
    const Status status = attn_res_merge(args, launch());
    const std::string text = fmt::format("{}: {}", kOp, w.text);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument) << text;
    EXPECT_EQ(status.message().substr(0, text.size()), text);
  }
  ASSERT_TRUE(c.download().ok());
  EXPECT_TRUE(expect_bitwise("prefix", c.prefix.bytes(), before[0]).ok);
  EXPECT_TRUE(expect_bitwise("slot", c.slot.bytes(), before[1]).ok);
  EXPECT_TRUE(expect_bitwise("output", c.output.bytes(), before[2]).ok);
  EXPECT_TRUE(attn_res_merge(c.args(), launch()).ok()) << "the case itself is right";
}

std::string kernel_name(const testing::TestParamInfo<KernelHere>& param) { return param.param.kernel; }
INSTANTIATE_TEST_SUITE_P(AttnResMerge, Contract, testing::ValuesIn(kernels_here(kOp)), kernel_name);
INSTANTIATE_TEST_SUITE_P(AttnResMerge, Determinism, testing::ValuesIn(kernels_here(kOp)), kernel_name);
INSTANTIATE_TEST_SUITE_P(AttnResMerge, Refusals, testing::ValuesIn(kernels_here(kOp)), kernel_name);

TEST(Problem, LinesSayWhatIsWrong) {
  const std::pair<const char*, const char*> wrong[] = {
      {"attn_res_merge t=1", "d: missing"},
      {"attn_res_merge t=1 d=0", "needs t >= 0, d >= 1"},
      {"attn_res_merge t=1 d=4 dtype=f32 partial=bf16", "partial: has bf16, needs f32"},
      {"attn_res_merge t=1 d=4 mix_stride=3", "mix 3, slot 0, output 4, need at least d = 4"},
      {"attn_res_merge t=1 d=4 statistics_stride=1", "statistics_stride: has 1, needs at least 2"},
      {"attn_res_merge t=1 d=4 align=3", "needs 2, 4, 8 or 16"},
  };
  for (const auto& [text, expected] : wrong) {
    ProblemLine line;
    ASSERT_TRUE(parse_line(text, &line).ok());
    AttnResMergeProblem problem;
    const Status status = AttnResMergeProblem::parse(line, &problem);
    EXPECT_NE(status.message().find(expected), std::string::npos) << text << " gave " << status.message();
  }
}

TEST(Cost, BytesOfTheContract) {
  EXPECT_EQ(bytes(problem_of("attn_res_merge t=1 d=7168")), 2 * 7168 * (1 + 2 + 1 + 1) + 8);
  EXPECT_EQ(bytes(problem_of("attn_res_merge t=3 d=256 delta=0 write=1 partial=f32")), 3 * (2 * 256 * 3 + 4 * 256 + 8));
}

// The checker finds what it should: one wrong element, a prefix that was not stored, a NaN.
TEST(Checker, FindsPlantedErrors) {
  AttnResMergeCase good(problem_of("attn_res_merge t=3 d=64 write=1"), 15);
  ASSERT_TRUE(good.run({}, {}).ok());
  ASSERT_TRUE(good.verify().ok) << good.verify().detail;
  AttnResMergeCase element = good;
  element.output.set(70, element.output.get(70) + 0.1F);
  EXPECT_FALSE(element.verify().ok);
  AttnResMergeCase slot = good;
  slot.slot.set(70, slot.slot.get(71));
  EXPECT_FALSE(slot.verify().ok);
  AttnResMergeCase nan = good;
  nan.output.set(1, kNaN);
  EXPECT_FALSE(nan.verify().ok);
}

}  // namespace
}  // namespace silt
