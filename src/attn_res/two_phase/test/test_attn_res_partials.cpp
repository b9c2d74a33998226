// attn_res_partials: every kernel at hand, every case. The comments name the row of docs/cases.md.
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
constexpr std::string_view kOp = "attn_res_partials";

constexpr auto problem_of = parsed<AttnResPartialsProblem>;

class Numerics : public testing::TestWithParam<KernelLine> {};

TEST_P(Numerics, MatchesTheReference) { expect_right_or_refused<AttnResPartialsCase>(kOp, GetParam()); }

TEST_P(Numerics, TheLineParsesBack) {
  const AttnResPartialsProblem problem = problem_of(GetParam().line);
  EXPECT_EQ(problem_of(problem.line()).line(), problem.line());
}

INSTANTIATE_TEST_SUITE_P(AttnResPartials, Numerics, testing::ValuesIn(every_kernel_every_line(kOp)),
                         [](const auto& param) { return test_name(param.param.here.kernel, param.param.line); });

using EveryKernel = EveryKernelOf<AttnResPartialsCase>;

class Contract : public EveryKernel {};
class Determinism : public EveryKernel {};
class Refusals : public EveryKernel {};

// 8
TEST_P(Contract, NoTokensIsSuccess) {
  AttnResPartialsCase c(problem_of("attn_res_partials t=0 q=3 n=2 d=256"), 1);
  expect_right(c);
}

// 19: one query's softmax saturates at one source, another one's at another
TEST_P(Contract, LogitsFarApart) {
  AttnResPartialsCase c(problem_of("attn_res_partials t=4 q=2 n=4 d=256"), 2);
  c.qk_weight.fill([&](int64_t i) { return i < 256 ? 64.0F : -64.0F; });
  for (int64_t i = 0; i < c.blocks.elements(); ++i) {
    const int64_t slot = i / 256 % 4;
    c.blocks.set(i, slot == 2 ? 1.0F : slot == 1 ? -2.0F : -0.5F);  // logits near +-16384
  }
  expect_right(c);
  EXPECT_EQ(c.mix.get(0), 1.0F);  // query 0 is all of slot 2; for query 1 the three others weigh about the same
  EXPECT_LT(c.mix.get(c.problem.t * 256), 0.0F);
}

// 19: all equal, one zero, all zero
TEST_P(Contract, EqualAndZeroSources) {
  AttnResPartialsCase equal(problem_of("attn_res_partials t=2 q=3 n=4 d=1024"), 3);
  equal.blocks.fill([&](int64_t i) { return static_cast<float>(i % 1024 % 7) - 3; });
  expect_right(equal);
  EXPECT_EQ(equal.statistics.get(1), 4.0F);
  EXPECT_EQ(equal.mix.get(0), 4 * equal.blocks.get(0));
  AttnResPartialsCase zero(problem_of("attn_res_partials t=2 q=3 n=3 d=1024"), 4);
  for (int64_t i = 0; i < 1024; ++i) zero.blocks.set(1024 + i, 0.0F);
  expect_right(zero);
  AttnResPartialsCase nothing(problem_of("attn_res_partials t=2 q=3 n=3 d=1024"), 5);
  nothing.blocks.fill([](int64_t) { return 0.0F; });
  expect_right(nothing);
  EXPECT_EQ(nothing.statistics.get(0), 0.0F);
  EXPECT_EQ(nothing.statistics.get(1), 3.0F);
}

// 19: the sum of squares, and the accumulator, leave the fp32 range; contract.md says what comes out
TEST_P(Contract, StatisticsOverflow) {
  AttnResPartialsCase source(problem_of("attn_res_partials t=3 q=2 n=3 d=256"), 6);
  for (int64_t i = 0; i < 256; ++i) source.blocks.set(256 + i, 1e30F);
  expect_right(source);
  EXPECT_TRUE(std::isfinite(source.mix.get(0)));
  AttnResPartialsCase sum(problem_of("attn_res_partials t=3 q=2 n=3 d=256"), 7);
  sum.norm_weight.fill([](int64_t) { return 1e-3F; });  // so that the dot products stay finite
  sum.blocks.fill([](int64_t) { return 3e38F; });
  expect_right(sum);
  EXPECT_EQ(sum.mix.get(0), std::numeric_limits<float>::infinity());
}

// 20: nothing unread reaches an output; the poison of a case is NaN everywhere outside the live elements
// 21: a NaN in a live input stays in its row
TEST_P(Contract, ANaNStaysInItsRow) {
  AttnResPartialsCase c(problem_of("attn_res_partials t=5 q=4 n=3 d=512 r=4"), 8);
  c.blocks.set((2 * 4 + 1) * 512 + 77, kNaN);
  expect_right(c);
  for (int64_t q = 0; q < 4; ++q) {
    for (int64_t t = 0; t < 5; ++t) {
      EXPECT_EQ(std::isnan(c.mix.get((q * 5 + t) * 512 + 3)), t == 2) << q << " " << t;
      EXPECT_EQ(std::isnan(c.statistics.get((q * 5 + t) * 2 + 1)), t == 2) << q << " " << t;
    }
  }
}

TEST_P(Contract, EpsilonIsUsed) {
  AttnResPartialsCase c(problem_of("attn_res_partials t=3 q=3 n=2 d=256"), 9);
  c.eps = 0.7F;
  expect_right(c);
  c.eps = 0;
  expect_right(c);
}

// 36d: a column's denormal source beside a normal one
TEST_P(Contract, Denormals) {
  AttnResPartialsCase c(problem_of("attn_res_partials t=3 q=3 n=3 d=256"), 12);
  for (int64_t i = 0; i < c.blocks.elements(); i += 2) {
    if (i / 256 % 3 == 1) c.blocks.set(i, i % 4 == 0 ? 1e-39F : -3e-39F);
  }
  expect_right(c);
}

// 36d: no slower than 1.5 times normal data
TEST_P(Contract, DenormalsCostNothing) {
  if (here().device.kind != DeviceKind::cpu || here().kernel == "cpu_reference") return;
  AttnResPartialsCase normal(problem_of("attn_res_partials t=8 q=4 n=3 d=1024"), 14);
  AttnResPartialsCase denormal = normal;
  for (CaseTensor* tensor : {&denormal.blocks}) {
    tensor->fill([](int64_t i) { return i % 2 == 0 ? 1e-39F : -3e-39F; });
  }
  Launch alone = launch();
  alone.threads = 1;
  const double ratio =
      time_ratio([&] { ASSERT_TRUE(normal.upload(here().device).ok() && denormal.upload(here().device).ok()); },
                 [&] { ASSERT_TRUE(attn_res_partials(denormal.args(), alone).ok()); },
                 [&] { ASSERT_TRUE(attn_res_partials(normal.args(), alone).ok()); }, 1.5);
  RecordProperty("ratio", fmt::format("{:.2f}", ratio));
  EXPECT_LE(ratio, 1.5);
}

// 12: more than 2^31 elements between the slots of a slot-major bank, and between the queries' mixes
TEST_P(Contract, OffsetsAre64Bit) {
  constexpr int64_t kFar = (int64_t{1} << 30) + 4096;
  if (here().device.kind != DeviceKind::cpu) return;  // a GPU needs a pool of its own
  AttnResPartialsCase c(problem_of("attn_res_partials t=2 q=3 n=3 d=256"), 10);
  Buffer bank(static_cast<size_t>(2 * kFar + 2 * 256) * sizeof(bf16));
  Buffer mix(static_cast<size_t>(2 * kFar + 2 * 256) * sizeof(bf16));
  for (int64_t i = 0; i < c.blocks.elements(); ++i) {
    bank.as<bf16>()[i / 256 % 3 * kFar + i / 768 * 256 + i % 256] = to_bf16(c.blocks.get(i));
  }
  ASSERT_TRUE(c.upload(here().device).ok());
  AttnResPartialsArgs args = c.args();
  args.blocks = view(bank.as<bf16>(), {2, 3, 256}, {256, kFar, 1});
  args.mix = view(mix.as<bf16>(), {3, 2, 256}, {kFar, 256, 1});
  ASSERT_TRUE(attn_res_partials(args, launch()).ok());
  ASSERT_TRUE(c.download().ok());
  for (int64_t i = 0; i < c.mix.elements(); ++i) {  // what was written, to where verify looks
    c.mix.set(i, to_float(mix.as<bf16>()[i / 512 * kFar + i % 512]));
  }
  const Verdict verdict = c.verify();
  EXPECT_TRUE(verdict.ok) << verdict.detail;
}

// 26
TEST_P(Determinism, AHundredRunsAreTheSame) {
  AttnResPartialsCase first(problem_of("attn_res_partials t=9 q=8 n=5 d=768"), 11);
  ASSERT_TRUE(first.run(here().device, launch()).ok());
  AttnResPartialsCase again = first;
  for (int run = 0; run < 100; ++run) {
    ASSERT_TRUE(again.run(here().device, launch()).ok());
    ASSERT_TRUE(expect_bitwise("mix", again.mix.bytes(), first.mix.bytes()).ok) << run;
    ASSERT_TRUE(expect_bitwise("statistics", again.statistics.bytes(), first.statistics.bytes()).ok) << run;
  }
}

// 27: a row of one query alone has the same bits as at another position, among other rows and other queries; so for
// every thread count
TEST_P(Determinism, ARowDependsOnItselfOnly) {
  for (const int64_t d : {256, 7168}) {
    AttnResPartialsCase many(problem_of(fmt::format("attn_res_partials t=37 q=8 n=4 d={}", d)), 12);
    ASSERT_TRUE(many.run(here().device, launch()).ok());
    for (const int64_t row : {0, 17, 36}) {
      for (const int64_t queries : {1, 3, 8}) {
        const int64_t q = 8 - queries;
        AttnResPartialsCase alone(problem_of(fmt::format("attn_res_partials t=1 q={} n=4 d={}", queries, d)), 99);
        for (int64_t i = 0; i < 4 * d; ++i) alone.blocks.set(i, many.blocks.get(row * 4 * d + i));
        for (int64_t i = 0; i < queries * d; ++i) {
          alone.norm_weight.set(i, many.norm_weight.get(q * d + i));
          alone.qk_weight.set(i, many.qk_weight.get(q * d + i));
        }
        ASSERT_TRUE(alone.run(here().device, launch()).ok());
        for (int64_t k = 0; k < queries; ++k) {
          const int64_t at = (q + k) * 37 + row;
          ASSERT_EQ(alone.statistics.get(2 * k), many.statistics.get(2 * at)) << row << " " << q + k;
          ASSERT_EQ(alone.statistics.get(2 * k + 1), many.statistics.get(2 * at + 1)) << row << " " << q + k;
          for (int64_t i = 0; i < d; ++i) {
            ASSERT_EQ(alone.mix.get(k * d + i), many.mix.get(at * d + i)) << row << " " << q + k << " " << i;
          }
        }
      }
    }
    for (const int threads : {1, 2, 3, 8, 64}) {
      AttnResPartialsCase split = many;
      Launch with = launch();
      with.threads = threads;
      ASSERT_TRUE(split.run(here().device, with).ok());
      ASSERT_TRUE(expect_bitwise("mix", split.mix.bytes(), many.mix.bytes()).ok) << threads << " threads";
      ASSERT_TRUE(expect_bitwise("statistics", split.statistics.bytes(), many.statistics.bytes()).ok) << threads;
    }
  }
}

// 27: so many rows for one thread that what it writes goes past the caches; shared by more threads it stays in them
TEST_P(Determinism, RowsWrittenPastTheCachesAreTheSame) {
  if (here().device.kind != DeviceKind::cpu) return;
  constexpr int64_t kColumns = 1024;
  const int64_t rows = cpu_facts().l2_bytes / 2 / (2 * kColumns) + 8;
  AttnResPartialsCase streamed(problem_of(fmt::format("attn_res_partials t={} q=2 n=2 d=1024", rows)), 21);
  AttnResPartialsCase kept = streamed;
  Launch with = launch();
  with.threads = 1;
  ASSERT_TRUE(streamed.run(here().device, with).ok());
  const Verdict verdict = streamed.verify();
  EXPECT_TRUE(verdict.ok) << verdict.detail;
  with.threads = 64;
  ASSERT_TRUE(kept.run(here().device, with).ok());
  for (const auto& [a, b] : {std::pair{&streamed.mix, &kept.mix}, std::pair{&streamed.statistics, &kept.statistics}}) {
    EXPECT_TRUE(expect_bitwise("streamed", a->bytes(), b->bytes()).ok);
  }
}

// 28
TEST_P(Determinism, TwoCallersAtOnce) {
  std::vector<std::thread> callers;
  for (uint64_t caller = 0; caller < 2; ++caller) {
    callers.emplace_back([this, caller] {
      for (int run = 0; run < 10; ++run) {
        AttnResPartialsCase c(problem_of(caller == 0 ? "attn_res_partials t=20 q=8 n=4 d=512"
                                                     : "attn_res_partials t=13 q=3 n=7 d=300 align=2"),
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
    void (*plant)(AttnResPartialsArgs&);
  };
  static float some_floats[4096];
  const Wrong wrong[] = {
      {"blocks: shape: has [], needs [T, R, D]", [](AttnResPartialsArgs& a) { a.blocks = {}; }},
      {"blocks: shape: has [4, 3], needs [T, R, D]", [](AttnResPartialsArgs& a) { a.blocks.rank = 2; }},
      {"blocks: dtype: has i32, needs bf16 or f32", [](AttnResPartialsArgs& a) { a.blocks.dtype = DType::i32; }},
      {"blocks: has a null pointer, needs 3072 elements", [](AttnResPartialsArgs& a) { a.blocks.data = nullptr; }},
      {"blocks: stride of axis 2: has 2, needs 1", [](AttnResPartialsArgs& a) { a.blocks.stride[2] = 2; }},
      {"blocks: stride of axis 1: has 200, needs at least 256",
       [](AttnResPartialsArgs& a) { a.blocks.stride[1] = 200; }},
      {"blocks: stride of axis 0: has 700, needs at least 768",
       [](AttnResPartialsArgs& a) { a.blocks.stride[0] = 700; }},
      {"num_blocks: has 4, needs 1..3 (slots of blocks)", [](AttnResPartialsArgs& a) { a.num_blocks = 4; }},
      {"num_blocks: has 0, needs 1..3 (slots of blocks)", [](AttnResPartialsArgs& a) { a.num_blocks = 0; }},
      {"stable_blocks: has 3, needs -1..2 (num_blocks)", [](AttnResPartialsArgs& a) { a.stable_blocks = 3; }},
      {"eps: has nan, needs a finite number >= 0", [](AttnResPartialsArgs& a) { a.eps = kNaN; }},
      {"eps: has -1e-05, needs a finite number >= 0", [](AttnResPartialsArgs& a) { a.eps = -1e-5F; }},
      {"norm_weight: shape: has [], needs [Q, 256]", [](AttnResPartialsArgs& a) { a.norm_weight = {}; }},
      {"norm_weight: shape: has 9 queries, needs 1..8", [](AttnResPartialsArgs& a) { a.norm_weight.shape[0] = 9; }},
      {"norm_weight: shape: has 0 queries, needs 1..8", [](AttnResPartialsArgs& a) { a.norm_weight.shape[0] = 0; }},
      {"norm_weight: dtype: has f32, needs bf16",
       [](AttnResPartialsArgs& a) {
         a.norm_weight = view(some_floats, {2, 256});
       }},
      {"norm_weight: stride of axis 0: has 255, needs at least 256",
       [](AttnResPartialsArgs& a) { a.norm_weight.stride[0] = 255; }},
      {"qk_weight: absent, needs [2, 256]", [](AttnResPartialsArgs& a) { a.qk_weight = {}; }},
      {"qk_weight: shape: has [1, 256], needs [2, 256]", [](AttnResPartialsArgs& a) { a.qk_weight.shape[0] = 1; }},
      {"qk_weight: stride of axis 1: has 2, needs 1", [](AttnResPartialsArgs& a) { a.qk_weight.stride[1] = 2; }},
      {"statistics: absent, needs [2, 4, 2]", [](AttnResPartialsArgs& a) { a.statistics = {}; }},
      {"statistics: dtype: has bf16, needs f32", [](AttnResPartialsArgs& a) { a.statistics.dtype = DType::bf16; }},
      {"statistics: shape: has [2, 3, 2], needs [2, 4, 2]", [](AttnResPartialsArgs& a) { a.statistics.shape[1] = 3; }},
      {"statistics: stride of axis 0: has 4, needs at least 8",
       [](AttnResPartialsArgs& a) { a.statistics.stride[0] = 4; }},
      {"mix: absent, needs [2, 4, 256]", [](AttnResPartialsArgs& a) { a.mix = {}; }},
      {"mix: dtype: has i32, needs bf16 or f32", [](AttnResPartialsArgs& a) { a.mix.dtype = DType::i32; }},
      {"mix: shape: has [1, 4, 256], needs [2, 4, 256]", [](AttnResPartialsArgs& a) { a.mix.shape[0] = 1; }},
      {"mix: stride of axis 1: has 255, needs at least 256", [](AttnResPartialsArgs& a) { a.mix.stride[1] = 255; }},
      {"mix: stride of axis 0: has 1000, needs at least 1024", [](AttnResPartialsArgs& a) { a.mix.stride[0] = 1000; }},
      {"mix: has memory of blocks, needs memory of its own",
       [](AttnResPartialsArgs& a) { a.mix.data = const_cast<void*>(a.blocks.data); }},
      {"statistics: has memory of norm_weight, needs memory of its own",
       [](AttnResPartialsArgs& a) { a.statistics.data = const_cast<void*>(a.norm_weight.data); }},
      {"mix: has memory of statistics, needs memory of its own",
       [](AttnResPartialsArgs& a) { a.mix.data = a.statistics.data; }},
      {"mix: device: has ",
       [](AttnResPartialsArgs& a) {
         a.mix.device = {a.mix.device.kind == DeviceKind::cpu ? DeviceKind::cuda : DeviceKind::cpu, 0};
       }},
  };
  AttnResPartialsCase c(problem_of("attn_res_partials t=4 q=2 n=2 d=256 r=3"), 13);
  ASSERT_TRUE(c.upload(here().device).ok());
  const std::vector<std::byte> before[] = {c.statistics.bytes(), c.mix.bytes(), c.blocks.bytes()};
  for (const Wrong& w : wrong) {
    AttnResPartialsArgs args = c.args();
    w.plant(args);
    const Status status = attn_res_partials(args, launch());
    const std::string text = fmt::format("{}: {}", kOp, w.text);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument) << text;
    EXPECT_EQ(status.message().substr(0, text.size()), text);
  }
  ASSERT_TRUE(c.download().ok());
  EXPECT_TRUE(expect_bitwise("statistics", c.statistics.bytes(), before[0]).ok);
  EXPECT_TRUE(expect_bitwise("mix", c.mix.bytes(), before[1]).ok);
  EXPECT_TRUE(expect_bitwise("blocks", c.blocks.bytes(), before[2]).ok);
  EXPECT_TRUE(attn_res_partials(c.args(), launch()).ok()) << "the case itself is right";
}

// 34: exact mode keeps fp32 partials
TEST_P(Refusals, ExactModeNeedsFloatPartials) {
  if (here().device.kind != DeviceKind::cpu) return;  // no exact mode elsewhere
  AttnResPartialsCase c(problem_of("attn_res_partials t=2 q=2 n=2 d=64 dtype=f32"), 14);
  ASSERT_TRUE(c.upload(here().device).ok());
  AttnResPartialsArgs args = c.args();
  args.mix.dtype = DType::bf16;
  EXPECT_EQ(attn_res_partials(args, launch()).message(), "attn_res_partials: mix: dtype: has bf16, needs f32");
}

std::string kernel_name(const testing::TestParamInfo<KernelHere>& param) { return param.param.kernel; }
INSTANTIATE_TEST_SUITE_P(AttnResPartials, Contract, testing::ValuesIn(kernels_here(kOp)), kernel_name);
INSTANTIATE_TEST_SUITE_P(AttnResPartials, Determinism, testing::ValuesIn(kernels_here(kOp)), kernel_name);
INSTANTIATE_TEST_SUITE_P(AttnResPartials, Refusals, testing::ValuesIn(kernels_here(kOp)), kernel_name);

TEST(Problem, LinesSayWhatIsWrong) {
  const std::pair<const char*, const char*> wrong[] = {
      {"attn_res_partials t=1 q=1 n=2", "d: missing"},
      {"attn_res_partials t=1 q=9 n=2 d=4", "q: has 9, needs 1..8"},
      {"attn_res_partials t=1 q=1 n=0 d=4", "needs t >= 0, n >= 1, d >= 1"},
      {"attn_res_partials t=1 q=1 n=2 d=4 r=1", "r: has 1, needs at least 2"},
      {"attn_res_partials t=1 q=1 n=2 d=4 dtype=f32 partial=bf16", "partial: has bf16, needs f32"},
      {"attn_res_partials t=1 q=2 n=2 d=4 qk_stride=3", "norm_stride, qk_stride: have 4, 3, need at least d = 4"},
      {"attn_res_partials t=1 q=1 n=2 d=4 stable=3", "stable: has 3, needs -1..2"},
      {"attn_res_partials t=1 q=1 n=2 d=4 align=3", "needs 2, 4, 8 or 16"},
  };
  for (const auto& [text, expected] : wrong) {
    ProblemLine line;
    ASSERT_TRUE(parse_line(text, &line).ok());
    AttnResPartialsProblem problem;
    const Status status = AttnResPartialsProblem::parse(line, &problem);
    EXPECT_NE(status.message().find(expected), std::string::npos) << text << " gave " << status.message();
  }
}

TEST(Cost, BytesOfTheContract) {
  EXPECT_EQ(bytes(problem_of("attn_res_partials t=1 q=8 n=8 d=7168")), 2 * 7168 * 8 + 8 * (2 * 7168 + 8));
  EXPECT_EQ(bytes(problem_of("attn_res_partials t=3 q=2 n=4 d=256 partial=f32")),
            3 * (2 * 256 * 4 + 2 * (4 * 256 + 8)));
}

// The checker finds what it should: one wrong element, statistics of another query, a NaN.
TEST(Checker, FindsPlantedErrors) {
  AttnResPartialsCase good(problem_of("attn_res_partials t=3 q=2 n=3 d=64"), 15);
  ASSERT_TRUE(good.run({}, {}).ok());
  ASSERT_TRUE(good.verify().ok) << good.verify().detail;
  AttnResPartialsCase element = good;
  element.mix.set(70, element.mix.get(70) + 0.1F);
  EXPECT_FALSE(element.verify().ok);
  AttnResPartialsCase swapped = good;
  swapped.statistics.set(0, good.statistics.get(6));
  EXPECT_FALSE(swapped.verify().ok);
  AttnResPartialsCase nan = good;
  nan.statistics.set(1, kNaN);
  EXPECT_FALSE(nan.verify().ok);
}

}  // namespace
}  // namespace silt
