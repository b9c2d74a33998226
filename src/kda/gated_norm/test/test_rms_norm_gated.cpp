// rms_norm_gated: every kernel at hand, every case. The comments name the row of docs/cases.md.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "kda/gated_norm/cases.hpp"
#include "proof/room_test.hpp"
#include "proof/time_ratio.hpp"

namespace silt {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

constexpr auto problem_of = parsed<RmsNormGatedProblem>;

class Numerics : public testing::TestWithParam<KernelLine> {};

TEST_P(Numerics, MatchesTheReference) { expect_right_or_refused<RmsNormGatedCase>("rms_norm_gated", GetParam()); }

TEST_P(Numerics, TheCheckedProblemIsTheLine) {
  const RmsNormGatedProblem problem = problem_of(GetParam().line);
  EXPECT_EQ(problem_of(problem.line()).line(), problem.line());
  RmsNormGatedCase c(problem, 1);
  ASSERT_TRUE(c.upload(GetParam().here.device).ok());
  RmsNormGatedProblem checked;
  const Status status = check(c.args(), &checked);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(checked.line(), problem.line());
}

INSTANTIATE_TEST_SUITE_P(RmsNormGated, Numerics, testing::ValuesIn(every_kernel_every_line("rms_norm_gated")),
                         [](const auto& param) { return test_name(param.param.here.kernel, param.param.line); });

using EveryKernel = EveryKernelOf<RmsNormGatedCase>;

class Contract : public EveryKernel {};

// 8
TEST_P(Contract, NoRowsIsSuccess) {
  RmsNormGatedCase c(problem_of("rms_norm_gated t=0 h=2"), 1);
  expect_right(c);
}

// 2: more (row, head) pairs than a 16-bit grid axis
TEST_P(Contract, ManyRowsTimesHeads) {
  RmsNormGatedCase c(problem_of("rms_norm_gated t=1024 h=65"), 2);
  expect_right(c);
}

// 1: rows more than 2^31 elements apart; only the pages used are touched
TEST_P(Contract, OffsetsAre64Bit) {
  if (!in_host_memory(here().device)) return;
  constexpr int64_t kStride = (int64_t{1} << 31) + 128;
  for (const int which : {0, 1, 2}) {
    RmsNormGatedCase c(problem_of("rms_norm_gated t=2 h=1"), 10);
    ASSERT_TRUE(c.upload(here().device).ok());
    RmsNormGatedArgs args = c.args();
    Buffer memory(static_cast<size_t>(kStride + 128) * sizeof(bf16));
    const ConstTensorView near = which == 0 ? args.x : which == 1 ? args.gate : ConstTensorView(args.output);
    const auto copy = [&](bool out) {
      for (int64_t row = 0; row < 2; ++row) {
        bf16* near_row = static_cast<bf16*>(const_cast<void*>(near.data)) + row * near.stride[0];
        bf16* far_row = memory.as<bf16>() + row * kStride;
        std::copy_n(out ? near_row : far_row, 128, out ? far_row : near_row);
      }
    };
    copy(true);
    const TensorView far = view(memory.as<bf16>(), {2, 1, 128}, {kStride, 128, 1}, here().device);
    if (which == 0) args.x = far;
    if (which == 1) args.gate = far;
    if (which == 2) args.output = far;
    const Status status = rms_norm_gated(args, launch());
    ASSERT_TRUE(status.ok()) << status.message();
    copy(false);
    ASSERT_TRUE(c.download().ok());
    const Verdict verdict = c.verify();
    EXPECT_TRUE(verdict.ok) << which << ": " << verdict.detail;
  }
}

// 24: the two gates are different operators
TEST_P(Contract, ActivationsAreNotSwapped) {
  for (const char* line :
       {"rms_norm_gated t=1 h=1 x=f32 output=f32", "rms_norm_gated t=1 h=1 x=f32 output=f32 act=silu"}) {
    RmsNormGatedCase c(problem_of(line), 3);
    c.x.fill([](int64_t) { return 1.0F; });
    c.weight.fill([](int64_t) { return 1.0F; });
    c.gate.fill([](int64_t) { return 2.0F; });
    c.eps = 0;
    expect_right(c);
    const float sigmoid = 0.880797F;
    EXPECT_NEAR(c.output.get(5), c.problem.activation == GateActivation::sigmoid ? sigmoid : 2 * sigmoid, 1e-5F);
  }
}

TEST_P(Contract, TheEpsilonIsUsed) {
  RmsNormGatedCase c(problem_of("rms_norm_gated t=2 h=2"), 4);
  for (const float eps : {0.0F, 1e-5F, 0.7F}) {
    c.eps = eps;
    expect_right(c);
  }
}

// 15, 16, 19: zero rows, extreme gates, sums beyond the fp32 range
TEST_P(Contract, Extremes) {
  for (const char* line : {"rms_norm_gated t=6 h=1", "rms_norm_gated t=6 h=1 act=silu"}) {
    RmsNormGatedCase c(problem_of(line), 5);
    const float gates[] = {40, -40, 100, -100, 0, 3};
    for (int64_t i = 0; i < c.gate.elements(); ++i) c.gate.set(i, gates[i / 128]);
    for (int64_t i = 0; i < 128; ++i) c.x.set(4 * 128 + i, 0);
    for (int64_t i = 0; i < 128; ++i) c.x.set(5 * 128 + i, i % 2 == 0 ? 1e30F : -1e30F);
    expect_right(c);
    for (int64_t i = 0; i < c.output.elements(); ++i) ASSERT_TRUE(std::isfinite(c.output.get(i))) << i;
    EXPECT_EQ(c.output.get(4 * 128 + 3), 0.0F);
    EXPECT_EQ(c.output.get(5 * 128 + 3), 0.0F);
  }
}

// 21, 36e
TEST_P(Contract, ANaNStaysInItsHead) {
  for (const char* line : {"rms_norm_gated t=3 h=3", "rms_norm_gated t=3 h=3 act=silu"}) {
    RmsNormGatedCase x(problem_of(line), 6);
    x.x.set(4 * 128 + 7, kNaN);
    expect_right(x);
    for (int64_t i = 0; i < x.output.elements(); ++i) ASSERT_EQ(std::isnan(x.output.get(i)), i / 128 == 4) << i;
    RmsNormGatedCase gate(problem_of(line), 6);
    gate.gate.set(4 * 128 + 7, kNaN);
    expect_right(gate);
    for (int64_t i = 0; i < gate.output.elements(); ++i) {
      ASSERT_EQ(std::isnan(gate.output.get(i)), i == 4 * 128 + 7) << i;
    }
  }
}

// 36d: denormal rows and gates
TEST_P(Contract, Denormals) {
  for (const char* line : {"rms_norm_gated t=3 h=2 x=f32", "rms_norm_gated t=3 h=2 act=silu output=f32"}) {
    RmsNormGatedCase c(problem_of(line), 9);
    c.x.fill([](int64_t i) { return i % 3 == 0 ? 1e-39F : -2e-40F; });
    c.gate.fill([](int64_t i) { return i % 2 == 0 ? 1e-40F : -3e-39F; });
    expect_right(c);
  }
}

// 36d: no slower than 1.5 times normal data, as CPU workers flush denormals
TEST_P(Contract, DenormalsCostNothing) {
  if (here().device.kind != DeviceKind::cpu || here().kernel == "cpu_reference") return;
  RmsNormGatedCase normal(problem_of("rms_norm_gated t=32 h=8 x=f32"), 12);
  RmsNormGatedCase denormal = normal;
  denormal.x.fill([](int64_t i) { return i % 2 == 0 ? 1e-40F : -3e-39F; });
  denormal.gate.fill([](int64_t) { return 2e-40F; });
  Launch alone = launch();
  alone.threads = 1;
  const double ratio =
      time_ratio([&] { ASSERT_TRUE(normal.upload(here().device).ok() && denormal.upload(here().device).ok()); },
                 [&] { ASSERT_TRUE(rms_norm_gated(denormal.args(), alone).ok()); },
                 [&] { ASSERT_TRUE(rms_norm_gated(normal.args(), alone).ok()); }, 1.5);
  RecordProperty("ratio", fmt::format("{:.2f}", ratio));
  EXPECT_LE(ratio, 1.5);
}

class Determinism : public EveryKernel {};

// 26, 27
TEST_P(Determinism, ARowDependsOnItselfOnly) {
  const RmsNormGatedProblem problem = problem_of("rms_norm_gated t=37 h=3");
  const RmsNormGatedCase fresh(problem, 7);
  RmsNormGatedCase many(problem, 7);
  ASSERT_TRUE(many.run(here().device, launch()).ok());
  for (const int threads : {1, 2, 3, 8, 64}) {
    RmsNormGatedCase split(problem, 7);
    Launch with = launch();
    with.threads = threads;
    ASSERT_TRUE(split.run(here().device, with).ok());
    ASSERT_TRUE(expect_bitwise("output", split.output.bytes(), many.output.bytes()).ok) << threads;
  }
  for (const int64_t row : {0, 17, 36}) {
    RmsNormGatedCase alone(problem_of("rms_norm_gated t=1 h=3"), 8);
    alone.weight = fresh.weight;
    for (int64_t i = 0; i < 384; ++i) {
      alone.x.set(i, fresh.x.get(row * 384 + i));
      alone.gate.set(i, fresh.gate.get(row * 384 + i));
    }
    ASSERT_TRUE(alone.run(here().device, launch()).ok());
    for (int64_t i = 0; i < 384; ++i) ASSERT_EQ(alone.output.get(i), many.output.get(row * 384 + i)) << row << " " << i;
  }
}

// 28: two callers at once with different arguments
TEST_P(Determinism, TwoCallersAtOnce) {
  std::vector<std::thread> callers;
  for (const char* line : {"rms_norm_gated t=37 h=3", "rms_norm_gated t=21 h=2 x=f32 output=f32 act=silu"}) {
    callers.emplace_back([this, line] {
      for (uint64_t run = 0; run < 5; ++run) {
        RmsNormGatedCase c(problem_of(line), run);
        ASSERT_TRUE(c.run(here().device, launch()).ok());
        const Verdict verdict = c.verify();
        ASSERT_TRUE(verdict.ok) << verdict.detail;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

class Refusals : public EveryKernel {};

// 14, 34: every wrong argument alone; nothing is written
TEST_P(Refusals, WrongArgumentsAreNamed) {
  using A = RmsNormGatedArgs;
  struct Wrong {
    const char* text;
    void (*plant)(A&);
  };
  const Wrong wrong[] = {
      {"x: has a null pointer, needs 1024 elements", [](A& a) { a.x.data = nullptr; }},
      {"x: dtype: has i32, needs bf16 or f32", [](A& a) { a.x.dtype = DType::i32; }},
      {"x: shape: has [4, 2], needs [T, H, 128]", [](A& a) { a.x.rank = 2; }},
      {"x: shape: has [4, 2, 64], needs [4, 2, 128]", [](A& a) { a.x.shape[2] = 64; }},
      {"x: stride of axis 1: has 129, needs 128", [](A& a) { a.x.stride[1] = 129; }},
      {"x: stride of axis 0: has -1, needs at least 0", [](A& a) { a.x.stride[0] = -1; }},
      {"gate: absent, needs [4, 2, 128]", [](A& a) { a.gate = {}; }},
      {"gate: dtype: has i32, needs bf16 or f32", [](A& a) { a.gate.dtype = DType::i32; }},
      {"gate: shape: has [3, 2, 128], needs [4, 2, 128]", [](A& a) { a.gate.shape[0] = 3; }},
      {"weight: absent, needs [128]", [](A& a) { a.weight = {}; }},
      {"weight: dtype: has bf16, needs f32", [](A& a) { a.weight.dtype = DType::bf16; }},
      {"weight: shape: has [256], needs [128]", [](A& a) { a.weight.shape[0] = 256; }},
      {"output: absent, needs [4, 2, 128]", [](A& a) { a.output = {}; }},
      {"output: dtype: has i32, needs bf16 or f32", [](A& a) { a.output.dtype = DType::i32; }},
      {"output: shape: has [4, 3, 128], needs [4, 2, 128]", [](A& a) { a.output.shape[1] = 3; }},
      {"output: stride of axis 0: has 200, needs at least 256", [](A& a) { a.output.stride[0] = 200; }},
      {"eps: has nan, needs a finite number >= 0", [](A& a) { a.eps = kNaN; }},
      {"eps: has -1, needs a finite number >= 0", [](A& a) { a.eps = -1; }},
      {"eps: has inf, needs a finite number >= 0", [](A& a) { a.eps = kInf; }},
      {"activation: has 7, needs 0 (sigmoid) or 1 (silu)", [](A& a) { a.activation = static_cast<GateActivation>(7); }},
      {"output: has memory of x, needs memory of its own", [](A& a) { a.output.data = const_cast<void*>(a.x.data); }},
      {"output: has memory of gate, needs memory of its own",
       [](A& a) { a.output.data = const_cast<void*>(a.gate.data); }},
      {"output: has memory of weight, needs memory of its own",
       [](A& a) { a.output.data = const_cast<void*>(a.weight.data); }},
      {"gate: device: has ",
       [](A& a) {
         a.gate.device = {a.x.device.kind == DeviceKind::cpu ? DeviceKind::cuda : DeviceKind::cpu, 0};
       }},
  };
  RmsNormGatedCase c(problem_of("rms_norm_gated t=4 h=2"), 9);
  ASSERT_TRUE(c.upload(here().device).ok());
  const std::vector<std::byte> before = c.output.bytes();
  for (const Wrong& w : wrong) {
    A args = c.args();
    w.plant(args);
    const Status status = rms_norm_gated(args, launch());
    EXPECT_EQ(status.code(), StatusCode::invalid_argument) << w.text;
    const std::string text = std::string("rms_norm_gated: ") + w.text;
    EXPECT_EQ(status.message().substr(0, text.size()), text);
  }
  ASSERT_TRUE(c.download().ok());
  EXPECT_TRUE(expect_bitwise("output", c.output.bytes(), before).ok);
  expect_right(c);
}

std::string kernel_name(const testing::TestParamInfo<KernelHere>& param) { return param.param.kernel; }
INSTANTIATE_TEST_SUITE_P(RmsNormGated, Contract, testing::ValuesIn(kernels_here("rms_norm_gated")), kernel_name);
INSTANTIATE_TEST_SUITE_P(RmsNormGated, Determinism, testing::ValuesIn(kernels_here("rms_norm_gated")), kernel_name);
INSTANTIATE_TEST_SUITE_P(RmsNormGated, Refusals, testing::ValuesIn(kernels_here("rms_norm_gated")), kernel_name);

TEST(Planted, EveryFaultIsFound) {
  RmsNormGatedCase right(problem_of("rms_norm_gated t=3 h=2 output_stride=300 align=4"), 10);
  ASSERT_TRUE(right.run({}, {}).ok());
  ASSERT_TRUE(right.verify().ok);
  RmsNormGatedCase element = right;
  element.output.set(300, element.output.get(300) * 1.02F + 0.01F);
  EXPECT_FALSE(element.verify().ok);
  RmsNormGatedCase nan = right;
  nan.output.set(300, kNaN);
  EXPECT_FALSE(nan.verify().ok);
  RmsNormGatedCase outside = right;
  outside.output.host<bf16>()[256 + 9] = {};
  EXPECT_FALSE(outside.verify().ok);
}

TEST(Problem, LinesSayWhatIsWrong) {
  const std::pair<const char*, const char*> wrong[] = {
      {"rms_norm_gated t=1", "rms_norm_gated: h: missing, needs a number"},
      {"rms_norm_gated t=1 h=0", "rms_norm_gated: t, h: has 1, 0, needs t >= 0, h >= 1"},
      {"rms_norm_gated t=1 h=1 act=relu", "rms_norm_gated: act: has \"relu\", needs one of sigmoid, silu"},
      {"rms_norm_gated t=1 h=1 output_stride=5", "rms_norm_gated: strides: have x 128, gate 128, output 5"},
      {"rms_norm_gated t=1 h=1 x=f32 align=2", "rms_norm_gated: align: has 2, needs 2, 4, 8 or 16 and at least"},
  };
  for (const auto& [text, expected] : wrong) {
    ProblemLine line;
    ASSERT_TRUE(parse_line(text, &line).ok());
    RmsNormGatedProblem problem;
    const Status status = RmsNormGatedProblem::parse(line, &problem);
    EXPECT_EQ(status.message().substr(0, std::string_view(expected).size()), expected) << text;
  }
}

TEST(Cost, BytesOfTheContract) {
  EXPECT_EQ(bytes(problem_of("rms_norm_gated t=3 h=2")), 3 * 256 * 6);
  EXPECT_EQ(bytes(problem_of("rms_norm_gated t=3 h=2 x=f32 output=f32")), 3 * 256 * 10);
}

}  // namespace
}  // namespace silt
