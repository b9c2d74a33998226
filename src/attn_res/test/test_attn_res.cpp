// attn_res: every kernel at hand, every case. The comments name the row of docs/cases.md.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "attn_res/cases.hpp"
#include "device/facts.hpp"
#include "proof/random.hpp"
#include "proof/room_test.hpp"
#include "proof/stop_when_broken.hpp"
#include "proof/time_ratio.hpp"

namespace silt {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

constexpr auto problem_of = parsed<AttnResProblem>;

/// The predicate's answer for the problem the way the call sees it.
bool refuses(const KernelHere& here, const AttnResArgs& args) {
  Launch launch;
  launch.policy = Policy::require(here.kernel);
  return attn_res(args, launch).code() == StatusCode::unsupported;
}

class Numerics : public testing::TestWithParam<KernelLine> {};

TEST_P(Numerics, MatchesTheReference) {
  const auto& [here, line] = GetParam();
  AttnResCase c(problem_of(line), 1);
  const uint64_t before = runs_of("attn_res", here.kernel);
  const Status status = c.run(here.device, {.policy = Policy::require(here.kernel)});
  if (status.code() == StatusCode::unsupported) {
    // Not for this kernel: the reason names a field, and another kernel of the device takes the call.
    EXPECT_NE(status.message().find("refuses: "), std::string::npos) << status.message();
    if (c.problem.dtype == DType::f32 && here.device.kind != DeviceKind::cpu) {  // exact mode is for the CPU
      EXPECT_EQ(c.run(here.device, {}).code(), StatusCode::unsupported);
      return;
    }
    ASSERT_TRUE(c.run(here.device, {}).ok());
    EXPECT_TRUE(c.verify().ok) << c.verify().detail;
    return;
  }
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(runs_of("attn_res", here.kernel), before + 1) << "another kernel ran";
  const Verdict verdict = c.verify();
  EXPECT_TRUE(verdict.ok) << verdict.detail;
}

TEST_P(Numerics, TheLineParsesBack) {
  const AttnResProblem problem = problem_of(GetParam().line);
  EXPECT_EQ(problem_of(problem.line()).line(), problem.line());
}

INSTANTIATE_TEST_SUITE_P(AttnRes, Numerics, testing::ValuesIn(every_kernel_every_line("attn_res")),
                         [](const auto& param) { return test_name(param.param.here.kernel, param.param.line); });

using EveryKernel = EveryKernelOf<AttnResCase>;

class Contract : public EveryKernel {};
class Determinism : public EveryKernel {};
class Refusals : public EveryKernel {};

// 8
TEST_P(Contract, NoTokensIsSuccess) {
  AttnResCase c(problem_of("attn_res t=0 n=2 d=256"), 1);
  expect_right(c);
}

// 19: softmax saturates
TEST_P(Contract, LogitsFarApart) {
  AttnResCase c(problem_of("attn_res t=4 n=4 d=256"), 2);
  c.qk_weight.fill([&](int64_t) { return 64.0F; });
  for (int64_t i = 0; i < c.blocks.elements(); ++i) {
    const int64_t slot = i / 256 % 4;
    c.blocks.set(i, slot == 2 ? 1.0F : -1.0F);  // logits near +-16384
  }
  expect_right(c);
  EXPECT_NEAR(c.output.get(0), c.output_norm_weight.get(0), 0.02F * c.output_norm_weight.get(0));
}

// 19: all equal, one zero, all zero
TEST_P(Contract, EqualAndZeroSources) {
  AttnResCase equal(problem_of("attn_res t=2 n=3 d=1024 delta=0"), 3);
  equal.blocks.fill([&](int64_t i) { return equal.prefix.get(i / (3 * 1024) * 1024 + i % 1024); });
  expect_right(equal);
  AttnResCase zero(problem_of("attn_res t=2 n=3 d=1024"), 4);
  for (int64_t i = 0; i < 1024; ++i) zero.blocks.set(1024 + i, 0.0F);
  expect_right(zero);
  AttnResCase nothing(problem_of("attn_res t=2 n=3 d=1024"), 5);
  for (CaseTensor* tensor : {&nothing.prefix, &nothing.delta, &nothing.blocks}) {
    tensor->fill([](int64_t) { return 0.0F; });
  }
  expect_right(nothing);
}

// 19: the sum of squares leaves the fp32 range; contract.md says what comes out
TEST_P(Contract, StatisticsOverflow) {
  AttnResCase source(problem_of("attn_res t=3 n=3 d=256 norm=0"), 6);
  for (int64_t i = 0; i < 256; ++i) source.blocks.set(256 + i, 1e30F);
  expect_right(source);
  EXPECT_TRUE(std::isfinite(source.output.get(0)));
  AttnResCase mixture(problem_of("attn_res t=3 n=3 d=256"), 7);
  for (int64_t i = 0; i < mixture.blocks.elements(); ++i) mixture.blocks.set(i, 1e30F);
  expect_right(mixture);
  EXPECT_EQ(mixture.output.get(0), 0.0F);
}

// 20: nothing unread reaches an output; the poison of a case is NaN everywhere outside the live elements
// 21: a NaN in a live input stays in its row
TEST_P(Contract, ANaNStaysInItsRow) {
  for (const char* which : {"prefix", "delta", "block"}) {
    AttnResCase c(problem_of("attn_res t=5 n=3 d=512 write=3"), 8);
    if (which == std::string("prefix")) c.prefix.set(2 * 512 + 77, kNaN);
    if (which == std::string("delta")) c.delta.set(2 * 512 + 77, kNaN);
    if (which == std::string("block")) c.blocks.set((2 * 4 + 1) * 512 + 77, kNaN);
    expect_right(c);
    EXPECT_TRUE(std::isnan(c.output.get(2 * 512))) << which;
    EXPECT_FALSE(std::isnan(c.output.get(1 * 512))) << which;
    EXPECT_FALSE(std::isnan(c.output.get(3 * 512))) << which;
  }
}

// 23
TEST_P(Contract, EpsilonsAreUsedAndNotSwapped) {
  AttnResCase c(problem_of("attn_res t=3 n=2 d=256"), 9);
  c.eps = 0.7F;
  c.output_norm_eps = 3.0F;
  expect_right(c);
  c.eps = 0;
  c.output_norm_eps = 0;
  expect_right(c);
}

// 36d: a column's denormal source beside a normal one
TEST_P(Contract, Denormals) {
  AttnResCase c(problem_of("attn_res t=3 n=3 d=256"), 12);
  for (int64_t i = 0; i < c.blocks.elements(); i += 2) {
    if (i / 256 % 3 == 1) c.blocks.set(i, i % 4 == 0 ? 1e-39F : -3e-39F);
  }
  expect_right(c);
}

// 36d: no slower than 1.5 times normal data
TEST_P(Contract, DenormalsCostNothing) {
  if (here().device.kind != DeviceKind::cpu || here().kernel == "cpu_reference") return;
  AttnResCase normal(problem_of("attn_res t=16 n=3 d=1024"), 14);
  AttnResCase denormal = normal;
  for (CaseTensor* tensor : {&denormal.prefix, &denormal.delta, &denormal.blocks}) {
    tensor->fill([](int64_t i) { return i % 2 == 0 ? 1e-39F : -3e-39F; });
  }
  Launch alone = launch();
  alone.threads = 1;
  const double ratio =
      time_ratio([&] { ASSERT_TRUE(normal.upload(here().device).ok() && denormal.upload(here().device).ok()); },
                 [&] { ASSERT_TRUE(attn_res(denormal.args(), alone).ok()); },
                 [&] { ASSERT_TRUE(attn_res(normal.args(), alone).ok()); }, 1.5);
  RecordProperty("ratio", fmt::format("{:.2f}", ratio));
  EXPECT_LE(ratio, 1.5);
}

// 12: more than 2^31 elements between the slots of a slot-major bank; only the pages used are touched
TEST_P(Contract, OffsetsAre64Bit) {
  constexpr int64_t kFar = (int64_t{1} << 30) + 4096;
  if (!in_host_memory(here().device)) return;  // the GPU tests have their own pool (test_attn_res_cuda.cpp)
  AttnResCase c(problem_of("attn_res t=2 n=3 d=256 write=3"), 10);
  Buffer bank(static_cast<size_t>(3 * kFar + 2 * 256) * sizeof(bf16));
  for (int64_t t = 0; t < 2; ++t) {
    for (int64_t slot = 0; slot < 3; ++slot) {
      for (int64_t i = 0; i < 256; ++i) {
        bank.as<bf16>()[slot * kFar + t * 256 + i] = to_bf16(c.blocks.get((t * 4 + slot) * 256 + i));
      }
    }
  }
  ASSERT_TRUE(c.upload(here().device).ok());
  AttnResArgs args = c.args();
  args.blocks = view(bank.as<bf16>(), {2, 4, 256}, {256, kFar, 1});
  args.blocks.device = here().device;
  ASSERT_TRUE(attn_res(args, launch()).ok());
  ASSERT_TRUE(c.download().ok());
  for (int64_t t = 0; t < 2; ++t) {  // what was written, back to where verify looks
    for (int64_t i = 0; i < 256; ++i) {
      c.blocks.set((t * 4 + 3) * 256 + i, to_float(bank.as<bf16>()[3 * kFar + t * 256 + i]));
    }
  }
  const Verdict verdict = c.verify();
  EXPECT_TRUE(verdict.ok) << verdict.detail;
}

// 26
TEST_P(Determinism, AHundredRunsAreTheSame) {
  AttnResCase first(problem_of("attn_res t=9 n=5 d=768 write=5"), 11);
  ASSERT_TRUE(first.run(here().device, launch()).ok());
  for (int run = 0; run < 100; ++run) {
    AttnResCase again(first.problem, 11);
    ASSERT_TRUE(again.run(here().device, launch()).ok());
    ASSERT_TRUE(expect_bitwise("output", again.output.bytes(), first.output.bytes()).ok) << run;
    ASSERT_TRUE(expect_bitwise("prefix", again.prefix.bytes(), first.prefix.bytes()).ok) << run;
  }
}

// 27: a row alone, at another position and among other rows has the same bits; so for every thread count
TEST_P(Determinism, ARowDependsOnItselfOnly) {
  for (const int64_t d : {256, 7168}) {
    AttnResProblem problem = problem_of("attn_res t=37 n=4 d=256");
    problem = problem_of(fmt::format("attn_res t=37 n=4 d={}", d));
    AttnResCase many(problem, 12);
    ASSERT_TRUE(many.run(here().device, launch()).ok());
    const AttnResCase fresh(problem, 12);
    for (const int64_t row : {0, 1, 17, 36}) {
      problem.t = 1;
      AttnResCase alone(problem, 99);
      for (int64_t i = 0; i < d; ++i) {
        alone.prefix.set(i, fresh.prefix.get(row * d + i));
        alone.delta.set(i, fresh.delta.get(row * d + i));
      }
      for (int64_t i = 0; i < 4 * d; ++i) alone.blocks.set(i, fresh.blocks.get(row * 4 * d + i));
      alone.norm_weight = fresh.norm_weight;
      alone.qk_weight = fresh.qk_weight;
      alone.output_norm_weight = fresh.output_norm_weight;
      ASSERT_TRUE(alone.run(here().device, launch()).ok());
      for (int64_t i = 0; i < d; ++i) ASSERT_EQ(alone.output.get(i), many.output.get(row * d + i)) << row << " " << i;
    }
    for (const int threads : {1, 2, 3, 8, 64}) {
      AttnResCase split(many.problem, 12);
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
  AttnResCase streamed(problem_of(fmt::format("attn_res t={} n=1 d=1024 write=1", rows)), 21);
  AttnResCase kept = streamed;
  Launch with = launch();
  with.threads = 1;
  ASSERT_TRUE(streamed.run(here().device, with).ok());
  const Verdict verdict = streamed.verify();
  EXPECT_TRUE(verdict.ok) << verdict.detail;
  with.threads = 64;
  ASSERT_TRUE(kept.run(here().device, with).ok());
  for (const auto& [a, b] : {std::pair{&streamed.output, &kept.output}, std::pair{&streamed.prefix, &kept.prefix},
                             std::pair{&streamed.blocks, &kept.blocks}}) {
    EXPECT_TRUE(expect_bitwise("streamed", a->bytes(), b->bytes()).ok);
  }
}

// 28
TEST_P(Determinism, TwoCallersAtOnce) {
  std::vector<std::thread> callers;
  for (uint64_t caller = 0; caller < 2; ++caller) {
    callers.emplace_back([this, caller] {
      for (int run = 0; run < 20; ++run) {
        AttnResCase c(problem_of(caller == 0 ? "attn_res t=40 n=4 d=512" : "attn_res t=23 n=7 d=300 align=2"), caller);
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
    void (*plant)(AttnResArgs&);
  };
  static float some_floats[4096];
  static bf16 some_halves[4096];
  const Wrong wrong[] = {
      {"attn_res: prefix: has a null pointer, needs 1024 elements", [](AttnResArgs& a) { a.prefix.data = nullptr; }},
      {"attn_res: prefix: dtype: has i32, needs bf16 or f32", [](AttnResArgs& a) { a.prefix.dtype = DType::i32; }},
      {"attn_res: output: dtype: has f32, needs bf16", [](AttnResArgs& a) { a.output.dtype = DType::f32; }},
      {"attn_res: delta: dtype: has f32, needs bf16", [](AttnResArgs& a) { a.delta.dtype = DType::f32; }},
      {"attn_res: blocks: dtype: has f32, needs bf16", [](AttnResArgs& a) { a.blocks.dtype = DType::f32; }},
      {"attn_res: norm_weight: dtype: has f32, needs bf16",
       [](AttnResArgs& a) { a.norm_weight = view(some_floats, {256}); }},
      {"attn_res: qk_weight: dtype: has f32, needs bf16",
       [](AttnResArgs& a) { a.qk_weight = view(some_floats, {256}); }},
      {"attn_res: output_norm_weight: dtype: has f32, needs bf16",
       [](AttnResArgs& a) { a.output_norm_weight = view(some_floats, {256}); }},
      {"attn_res: prefix: shape: has [4], needs [T, D]", [](AttnResArgs& a) { a.prefix.rank = 1; }},
      {"attn_res: output: shape: has [3, 256], needs [4, 256]", [](AttnResArgs& a) { a.output.shape[0] = 3; }},
      {"attn_res: delta: shape: has [4, 255], needs [4, 256]", [](AttnResArgs& a) { a.delta.shape[1] = 255; }},
      {"attn_res: blocks: shape: has [4, 3, 128], needs [4, 3, 256]", [](AttnResArgs& a) { a.blocks.shape[2] = 128; }},
      {"attn_res: norm_weight: shape: has [255], needs [256]", [](AttnResArgs& a) { a.norm_weight.shape[0] = 255; }},
      {"attn_res: prefix: stride of axis 0: has 255, needs at least 256",
       [](AttnResArgs& a) { a.prefix.stride[0] = 255; }},
      {"attn_res: output: stride of axis 0: has -256, needs at least 0",
       [](AttnResArgs& a) { a.output.stride[0] = -256; }},
      {"attn_res: output: stride of axis 1: has 2, needs 1", [](AttnResArgs& a) { a.output.stride[1] = 2; }},
      {"attn_res: blocks: stride of axis 1: has 200, needs at least 256",
       [](AttnResArgs& a) { a.blocks.stride[1] = 200; }},
      {"attn_res: blocks: stride of axis 0: has 700, needs at least 768",
       [](AttnResArgs& a) { a.blocks.stride[0] = 700; }},
      {"attn_res: qk_weight: stride of axis 0: has 2, needs 1", [](AttnResArgs& a) { a.qk_weight.stride[0] = 2; }},
      {"attn_res: num_blocks: has 4, needs 0..3 (slots of blocks)", [](AttnResArgs& a) { a.num_blocks = 4; }},
      {"attn_res: num_blocks: has -1, needs 0..3 (slots of blocks)", [](AttnResArgs& a) { a.num_blocks = -1; }},
      {"attn_res: block_write_idx: has 3, needs -1..2 (slots of blocks)",
       [](AttnResArgs& a) { a.block_write_idx = 3; }},
      {"attn_res: block_write_idx: has -2, needs -1..2 (slots of blocks)",
       [](AttnResArgs& a) { a.block_write_idx = -2; }},
      {"attn_res: block_write_idx: has 1, needs at least num_blocks 2 (it would overwrite a source)",
       [](AttnResArgs& a) { a.block_write_idx = 1; }},
      {"attn_res: stable_blocks: has 3, needs -1..2 (num_blocks)", [](AttnResArgs& a) { a.stable_blocks = 3; }},
      {"attn_res: eps: has nan, needs a finite number >= 0", [](AttnResArgs& a) { a.eps = kNaN; }},
      {"attn_res: eps: has -1e-05, needs a finite number >= 0", [](AttnResArgs& a) { a.eps = -1e-5F; }},
      {"attn_res: output_norm_eps: has inf, needs a finite number >= 0",
       [](AttnResArgs& a) { a.output_norm_eps = std::numeric_limits<float>::infinity(); }},
      {"attn_res: norm_weight: absent, needs [256]", [](AttnResArgs& a) { a.norm_weight = {}; }},
      {"attn_res: qk_weight: absent, needs [256]", [](AttnResArgs& a) { a.qk_weight = {}; }},
      {"attn_res: num_blocks: has 2, needs 0..0 (slots of blocks)", [](AttnResArgs& a) { a.blocks = {}; }},
      {"attn_res: output: has memory of prefix, needs memory of its own", [](AttnResArgs& a) { a.output = a.prefix; }},
      {"attn_res: output: has memory of delta, needs memory of its own",
       [](AttnResArgs& a) { a.output.data = const_cast<void*>(a.delta.data); }},
      {"attn_res: prefix: has memory of delta, needs memory of its own", [](AttnResArgs& a) { a.delta = a.prefix; }},
      {"attn_res: output: has memory of blocks, needs memory of its own",
       [](AttnResArgs& a) { a.output.data = static_cast<bf16*>(a.blocks.data) + 100; }},
      {"attn_res: qk_weight: device: has ",
       [](AttnResArgs& a) {
         a.qk_weight = view(some_halves, {256});
         a.qk_weight.device = {a.prefix.device.kind == DeviceKind::cpu ? DeviceKind::cuda : DeviceKind::cpu, 0};
       }},
  };
  AttnResCase c(problem_of("attn_res t=4 n=2 d=256 r=3"), 13);
  ASSERT_TRUE(c.upload(here().device).ok());
  const std::vector<std::byte> before[] = {c.prefix.bytes(), c.blocks.bytes(), c.output.bytes()};
  for (const Wrong& w : wrong) {
    AttnResArgs args = c.args();
    w.plant(args);
    const Status status = attn_res(args, launch());
    EXPECT_EQ(status.code(), StatusCode::invalid_argument) << w.text;
    EXPECT_EQ(status.message().substr(0, std::string_view(w.text).size()), w.text);
  }
  ASSERT_TRUE(c.download().ok());
  EXPECT_TRUE(expect_bitwise("prefix", c.prefix.bytes(), before[0]).ok);
  EXPECT_TRUE(expect_bitwise("blocks", c.blocks.bytes(), before[1]).ok);
  EXPECT_TRUE(expect_bitwise("output", c.output.bytes(), before[2]).ok);
  EXPECT_FALSE(refuses(here(), c.args())) << "the case itself is right";
}

// Row-interleaved slices of one buffer are legal; only shared memory is refused.
TEST_P(Refusals, InterleavedRowsAreLegal) {
  if (here().device.kind != DeviceKind::cpu) return;
  AttnResCase c(problem_of("attn_res t=4 n=0 d=256 r=0"), 14);
  ASSERT_TRUE(c.upload(here().device).ok());
  std::vector<bf16> fused(4 * 768);
  AttnResArgs args = c.args();
  args.prefix = view(fused.data(), {4, 256}, {768, 1});
  args.delta = view(fused.data() + 256, {4, 256}, {768, 1});
  args.output = view(fused.data() + 512, {4, 256}, {768, 1});
  EXPECT_TRUE(attn_res(args, launch()).ok());
  args.output = view(fused.data() + 500, {4, 256}, {768, 1});
  EXPECT_EQ(attn_res(args, launch()).code(), StatusCode::invalid_argument);
}

// 35
TEST(Policies, AnUnknownKernelNamesTheKnownOnes) {
  AttnResCase c(problem_of("attn_res t=2 n=1 d=64"), 15);
  const Status status = c.run({}, {.policy = Policy::require("cpu_plain_row")});
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_NE(status.message().find("needs one of "), std::string::npos);
  EXPECT_NE(status.message().find("cpu_plain_rows, cpu_reference"), std::string::npos);
}

std::string kernel_name(const testing::TestParamInfo<KernelHere>& param) { return param.param.kernel; }
INSTANTIATE_TEST_SUITE_P(AttnRes, Contract, testing::ValuesIn(kernels_here("attn_res")), kernel_name);
INSTANTIATE_TEST_SUITE_P(AttnRes, Determinism, testing::ValuesIn(kernels_here("attn_res")), kernel_name);
INSTANTIATE_TEST_SUITE_P(AttnRes, Refusals, testing::ValuesIn(kernels_here("attn_res")), kernel_name);

TEST(Problem, LinesSayWhatIsWrong) {
  const std::pair<const char*, const char*> wrong[] = {
      {"attn_res t=1 n=2", "d: missing"},
      {"attn_res t=1 n=2 d=0", "needs t >= 0, n >= 0, d >= 1"},
      {"attn_res t=1 n=2 d=4 write=1", "needs -1 or at least n = 2"},
      {"attn_res t=1 n=2 d=4 r=1", "attn_res: r: has 1, needs at least 2"},
      {"attn_res t=1 n=2 d=4 dtype=f16", "needs one of bf16, f32"},
      {"attn_res t=1 n=2 d=4 align=3", "needs 2, 4, 8 or 16"},
  };
  for (const auto& [text, expected] : wrong) {
    ProblemLine line;
    ASSERT_TRUE(parse_line(text, &line).ok());
    AttnResProblem problem;
    const Status status = AttnResProblem::parse(line, &problem);
    EXPECT_NE(status.message().find(expected), std::string::npos) << text << " gave " << status.message();
  }
}

TEST(Cost, BytesOfTheContract) {
  EXPECT_EQ(bytes(problem_of("attn_res t=1 n=8 d=7168")), 2 * 7168 * (8 + 1 + 2 + 1));
  EXPECT_EQ(bytes(problem_of("attn_res t=3 n=3 d=256 delta=0 write=3")), 3 * 2 * 256 * (3 + 1 + 1 + 1));
}

}  // namespace
}  // namespace silt
