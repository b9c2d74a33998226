// causal_conv1d_update: every kernel at hand, every case. The comments name the row of docs/cases.md.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "kda/conv_update/cases.hpp"
#include "kda/shared/layout.hpp"
#include "proof/random.hpp"
#include "proof/room_test.hpp"
#include "proof/time_ratio.hpp"

namespace silt {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

constexpr auto problem_of = parsed<CausalConv1dUpdateProblem>;

class Numerics : public testing::TestWithParam<KernelLine> {};

TEST_P(Numerics, MatchesTheReference) {
  expect_right_or_refused<CausalConv1dUpdateCase>("causal_conv1d_update", GetParam());
}

TEST_P(Numerics, TheCheckedProblemIsTheLine) {
  CausalConv1dUpdateProblem problem = problem_of(GetParam().line);
  EXPECT_EQ(problem_of(problem.line()).line(), problem.line());
  CausalConv1dUpdateCase c(problem, 1);
  ASSERT_TRUE(c.upload(GetParam().here.device).ok());
  CausalConv1dUpdateProblem checked;
  const Status status = check(c.args(), &checked);
  ASSERT_TRUE(status.ok()) << status.message();
  problem.padded = 0;
  EXPECT_EQ(checked.line(), problem.line());
}

INSTANTIATE_TEST_SUITE_P(CausalConv1dUpdate, Numerics,
                         testing::ValuesIn(every_kernel_every_line("causal_conv1d_update")),
                         [](const auto& param) { return test_name(param.param.here.kernel, param.param.line); });

using EveryKernel = EveryKernelOf<CausalConv1dUpdateCase>;

class Contract : public EveryKernel {};

// 8: no sequences, no tokens: nothing is touched
TEST_P(Contract, NothingToDoIsSuccess) {
  CausalConv1dUpdateCase rows(problem_of("causal_conv1d_update b=0 c=384 slots=2"), 1);
  expect_right(rows);
  CausalConv1dUpdateCase tokens(problem_of("causal_conv1d_update b=3 n=0 c=384"), 1);
  expect_right(tokens);
}

// 1: a pool of more than 2^31 elements; only the pages used are touched
TEST_P(Contract, OffsetsAre64Bit) {
  if (here().device.kind != DeviceKind::cpu) return;
  constexpr int64_t kStride = int64_t{1} << 24;
  constexpr int32_t kFar[] = {150, 129};
  CausalConv1dUpdateCase c(problem_of("causal_conv1d_update b=2 c=384"), 2);
  ASSERT_TRUE(c.upload(here().device).ok());
  Buffer pool(static_cast<size_t>(151 * kStride) * sizeof(bf16));
  const auto copy = [&](bool in) {
    for (int row = 0; row < 2; ++row) {
      bf16* near = c.conv_state.host<bf16>() + c.state_indices.get_int(row) * c.problem.conv_slot_stride;
      bf16* far = pool.as<bf16>() + kFar[row] * kStride;
      std::copy_n(in ? near : far, 3 * 384, in ? far : near);
    }
  };
  copy(true);
  CausalConv1dUpdateArgs args = c.args();
  args.conv_state = view(pool.as<bf16>(), {151, 384, 3}, {kStride, 1, 384});
  args.state_indices = view(kFar, {2});
  const Status status = causal_conv1d_update(args, launch());
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_TRUE(c.download().ok());
  copy(false);
  const Verdict verdict = c.verify();
  EXPECT_TRUE(verdict.ok) << verdict.detail;
}

// 2
TEST_P(Contract, ManyRowsTimesHeads) {
  CausalConv1dUpdateCase c(problem_of("causal_conv1d_update b=65536 c=3 slots=3 padded=65534 x_stride=0"), 3);
  expect_right(c);
}

// 3, 4, 6
TEST_P(Contract, IndicesAreFollowed) {
  for (const int64_t null_slot : {0, -1}) {
    CausalConv1dUpdateProblem problem = problem_of("causal_conv1d_update b=7 c=384 slots=12");
    problem.null_slot = null_slot;
    CausalConv1dUpdateCase c(problem, 4);
    Random random(5);
    c.conv_state.fill([&](int64_t) { return random.uniform(-1, 1); });
    const int32_t indices[] = {7, 0, 3, -1, 11, 12, std::numeric_limits<int32_t>::min()};
    for (int64_t row = 0; row < 7; ++row) c.state_indices.set_int(row, indices[row]);
    expect_right(c);
    EXPECT_EQ(c.output.get(384) == 0, null_slot == 0) << "slot 0 is live where the null slot is -1";
  }
}

// 20, 21: a NaN reaches the outputs whose taps cover it, and the history
TEST_P(Contract, ANaNStaysInItsChannel) {
  CausalConv1dUpdateCase c(problem_of("causal_conv1d_update b=3 n=6 c=384"), 6);
  c.x.set((1 * 6 + 1) * 384 + 77, kNaN);
  expect_right(c);
  for (int64_t i = 0; i < c.output.elements(); ++i) {
    const int64_t token = i / 384 % 6;
    const bool hit = i / 384 / 6 == 1 && i % 384 == 77 && token >= 1 && token <= 4;
    ASSERT_EQ(std::isnan(c.output.get(i)), hit) << i;
  }
  CausalConv1dUpdateCase old(problem_of("causal_conv1d_update b=2 c=384 layout=ds"), 7);
  old.conv_state.set((old.state_indices.get_int(1) * 384 + 77) * 3, kNaN);
  expect_right(old);
  EXPECT_TRUE(std::isnan(old.output.get(384 + 77)));
}

// 15: zeros alone give zeros, and with a bias its SiLU
TEST_P(Contract, ZeroVectors) {
  for (const char* line : {"causal_conv1d_update b=2 n=2 c=96", "causal_conv1d_update b=2 n=2 c=96 bias=1"}) {
    CausalConv1dUpdateCase c(problem_of(line), 10);
    c.x.fill([](int64_t) { return 0.0F; });
    c.conv_state.fill([](int64_t) { return 0.0F; });
    expect_right(c);
    for (int64_t i = 0; i < c.output.elements(); ++i) ASSERT_EQ(c.output.get(i) == 0, !c.problem.bias) << i;
  }
}

// 36d: denormal inputs and histories, which stay what they are bit for bit
TEST_P(Contract, Denormals) {
  const bool cpu = here().device.kind == DeviceKind::cpu;
  CausalConv1dUpdateCase c(
      problem_of(cpu ? "causal_conv1d_update b=2 n=4 c=96 dtype=f32" : "causal_conv1d_update b=2 n=4 c=96"), 11);
  c.x.fill([](int64_t i) { return i % 3 == 0 ? 1e-39F : -2e-40F; });
  c.conv_state.fill([](int64_t i) { return i % 2 == 0 ? 1e-40F : -3e-39F; });
  expect_right(c);
}

// 36d: no slower than 1.5 times normal data, as CPU workers flush denormals
TEST_P(Contract, DenormalsCostNothing) {
  if (here().device.kind != DeviceKind::cpu || here().kernel == "cpu_reference") return;
  CausalConv1dUpdateCase normal(problem_of("causal_conv1d_update b=4 n=16 c=1536"), 12);
  CausalConv1dUpdateCase denormal = normal;
  denormal.x.fill([](int64_t i) { return i % 2 == 0 ? 1e-40F : -3e-39F; });
  denormal.conv_state.fill([](int64_t) { return 2e-40F; });
  Launch alone = launch();
  alone.threads = 1;
  const double ratio =
      time_ratio([&] { ASSERT_TRUE(normal.upload(here().device).ok() && denormal.upload(here().device).ok()); },
                 [&] { ASSERT_TRUE(causal_conv1d_update(denormal.args(), alone).ok()); },
                 [&] { ASSERT_TRUE(causal_conv1d_update(normal.args(), alone).ok()); }, 1.5);
  RecordProperty("ratio", fmt::format("{:.2f}", ratio));
  EXPECT_LE(ratio, 1.5);
}

// Tokens one by one and all at once leave the same history and the same outputs, bit for bit
TEST_P(Contract, TokensOneByOneAreTheSame) {
  CausalConv1dUpdateCase whole(problem_of("causal_conv1d_update b=2 n=5 c=405 bias=1"), 8);
  const CausalConv1dUpdateCase fresh = whole;
  ASSERT_TRUE(whole.run(here().device, launch()).ok());
  CausalConv1dUpdateCase one(problem_of("causal_conv1d_update b=2 c=405 bias=1"), 9);
  one.weight = fresh.weight;
  one.bias = fresh.bias;
  one.conv_state = fresh.conv_state;
  one.state_indices = fresh.state_indices;
  for (int64_t t = 0; t < 5; ++t) {
    for (int64_t i = 0; i < 2 * 405; ++i) one.x.set(i, fresh.x.get((i / 405 * 5 + t) * 405 + i % 405));
    ASSERT_TRUE(one.run(here().device, launch()).ok());
    for (int64_t i = 0; i < 2 * 405; ++i) {
      ASSERT_EQ(one.output.get(i), whole.output.get((i / 405 * 5 + t) * 405 + i % 405)) << t << " " << i;
    }
  }
  EXPECT_TRUE(expect_bitwise("history", one.conv_state.bytes(), whole.conv_state.bytes()).ok);
}

class Determinism : public EveryKernel {};

// 25, 26, 27
TEST_P(Determinism, ThreadsDoNotMatter) {
  for (const char* line : {"causal_conv1d_update b=7 n=2 c=1152 padded=2", "causal_conv1d_update b=1 c=405 layout=ds",
                           "causal_conv1d_update b=23 c=405 layout=ds", "causal_conv1d_update b=1 n=2 c=12300"}) {
    CausalConv1dUpdateCase first(problem_of(line), 10);
    ASSERT_TRUE(first.run(here().device, launch()).ok());
    for (const int threads : {1, 2, 3, 8, 64}) {
      CausalConv1dUpdateCase split(first.problem, 10);
      Launch with = launch();
      with.threads = threads;
      ASSERT_TRUE(split.run(here().device, with).ok());
      ASSERT_TRUE(expect_bitwise("output", split.output.bytes(), first.output.bytes()).ok) << threads;
      ASSERT_TRUE(expect_bitwise("history", split.conv_state.bytes(), first.conv_state.bytes()).ok) << threads;
    }
  }
}

// 27: a sequence alone, in another slot and among others has the same bits
TEST_P(Determinism, ARowDependsOnItselfOnly) {
  constexpr int64_t kChannels = 405;
  constexpr int64_t kValues = 3 * kChannels;  // of a sequence's three tokens, and of its history
  const CausalConv1dUpdateProblem problem = problem_of("causal_conv1d_update b=29 n=3 c=405 slots=33");
  const CausalConv1dUpdateCase fresh(problem, 13);
  CausalConv1dUpdateCase many(problem, 13);
  ASSERT_TRUE(many.run(here().device, launch()).ok());
  for (const int64_t row : {0, 13, 28}) {
    CausalConv1dUpdateCase alone(problem_of("causal_conv1d_update b=1 n=3 c=405 slots=5"), 99);
    alone.weight = fresh.weight;
    const int64_t slot = fresh.state_indices.get_int(row) * kValues;
    const int64_t own = alone.state_indices.get_int(0) * kValues;
    for (int64_t i = 0; i < kValues; ++i) {
      alone.x.set(i, fresh.x.get(row * kValues + i));
      alone.conv_state.set(own + i, fresh.conv_state.get(slot + i));
    }
    ASSERT_TRUE(alone.run(here().device, launch()).ok());
    for (int64_t i = 0; i < kValues; ++i) {
      ASSERT_EQ(alone.output.get(i), many.output.get(row * kValues + i)) << row << " " << i;
      ASSERT_EQ(alone.conv_state.get(own + i), many.conv_state.get(slot + i)) << row << " " << i;
    }
  }
}

// 28: two callers at once with different arguments
TEST_P(Determinism, TwoCallersAtOnce) {
  std::vector<std::thread> callers;
  for (const char* line :
       {"causal_conv1d_update b=5 c=405 n=3 bias=1", "causal_conv1d_update b=3 c=768 layout=ds output=f32"}) {
    callers.emplace_back([this, line] {
      for (uint64_t run = 0; run < 5; ++run) {
        CausalConv1dUpdateCase c(problem_of(line), run);
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
  using A = CausalConv1dUpdateArgs;
  struct Wrong {
    const char* text;
    void (*plant)(A&);
  };
  const Wrong wrong[] = {
      {"x: has a null pointer, needs 3072 elements", [](A& a) { a.x.data = nullptr; }},
      {"x: dtype: has i32, needs bf16 or f32", [](A& a) { a.x.dtype = DType::i32; }},
      {"x: shape: has [4, 2], needs [B, n, C], C a multiple of 3", [](A& a) { a.x.rank = 2; }},
      {"x: shape: has [4, 2, 383], needs [B, n, C], C a multiple of 3", [](A& a) { a.x.shape[2] = 383; }},
      {"x: stride of axis 2: has 2, needs 1", [](A& a) { a.x.stride[2] = 2; }},
      {"x: stride of axis 1: has -384, needs at least 0", [](A& a) { a.x.stride[1] = -384; }},
      {"weight: absent, needs [3, 4, 128]", [](A& a) { a.weight = {}; }},
      {"weight: dtype: has bf16, needs f32", [](A& a) { a.weight.dtype = DType::bf16; }},
      {"weight: shape: has [3, 3, 128], needs [3, 4, 128]", [](A& a) { a.weight.shape[1] = 3; }},
      {"weight: stride of axis 0: has 513, needs 512", [](A& a) { a.weight.stride[0] = 513; }},
      {"bias: shape: has [383], needs [384]", [](A& a) { a.bias.shape[0] = 383; }},
      {"bias: dtype: has bf16, needs f32", [](A& a) { a.bias.dtype = DType::bf16; }},
      {"conv_state: shape: has [], needs [slots, 384, 3]", [](A& a) { a.conv_state = {}; }},
      {"conv_state: dtype: has f32, needs bf16", [](A& a) { a.conv_state.dtype = DType::f32; }},
      {"conv_state: shape: has [5, 384, 2], needs [5, 384, 3]", [](A& a) { a.conv_state.shape[2] = 2; }},
      {"conv_state: inner strides: has [1, 385], needs [1, 384] (SD) or [3, 1] (DS)",
       [](A& a) { a.conv_state.stride[2] = 385; }},
      {"conv_state: stride of axis 0: has 1151, needs at least 1152", [](A& a) { a.conv_state.stride[0] = 1151; }},
      {"conv_state: has a null pointer, needs 5760 elements", [](A& a) { a.conv_state.data = nullptr; }},
      {"state_indices: dtype: has f32, needs i32", [](A& a) { a.state_indices.dtype = DType::f32; }},
      {"state_indices: shape: has [3], needs [4]", [](A& a) { a.state_indices.shape[0] = 3; }},
      {"output: absent, needs [4, 2, 384]", [](A& a) { a.output = {}; }},
      {"output: dtype: has i32, needs bf16 or f32", [](A& a) { a.output.dtype = DType::i32; }},
      {"output: shape: has [4, 1, 384], needs [4, 2, 384]", [](A& a) { a.output.shape[1] = 1; }},
      {"output: stride of axis 1: has 383, needs at least 384", [](A& a) { a.output.stride[1] = 383; }},
      {"output: stride of axis 0: has 500, needs at least 768", [](A& a) { a.output.stride[0] = 500; }},
      {"null_slot: has 2, needs 0 or -1", [](A& a) { a.null_slot = 2; }},
      {"output: has memory of x, needs memory of its own", [](A& a) { a.output.data = const_cast<void*>(a.x.data); }},
      {"output: has memory of conv_state, needs memory of its own", [](A& a) { a.output.data = a.conv_state.data; }},
      {"conv_state: has memory of x, needs memory of its own",
       [](A& a) { a.conv_state.data = const_cast<void*>(a.x.data); }},
      {"weight: device: has ",
       [](A& a) {
         a.weight.device = {a.x.device.kind == DeviceKind::cpu ? DeviceKind::cuda : DeviceKind::cpu, 0};
       }},
  };
  CausalConv1dUpdateCase c(problem_of("causal_conv1d_update b=4 n=2 c=384 bias=1"), 11);
  ASSERT_TRUE(c.upload(here().device).ok());
  const std::vector<std::byte> before[] = {c.conv_state.bytes(), c.output.bytes()};
  for (const Wrong& w : wrong) {
    A args = c.args();
    w.plant(args);
    const Status status = causal_conv1d_update(args, launch());
    EXPECT_EQ(status.code(), StatusCode::invalid_argument) << w.text;
    const std::string text = std::string("causal_conv1d_update: ") + w.text;
    EXPECT_EQ(status.message().substr(0, text.size()), text);
  }
  ASSERT_TRUE(c.download().ok());
  EXPECT_TRUE(expect_bitwise("conv_state", c.conv_state.bytes(), before[0]).ok);
  EXPECT_TRUE(expect_bitwise("output", c.output.bytes(), before[1]).ok);
  expect_right(c);
}

std::string kernel_name(const testing::TestParamInfo<KernelHere>& param) { return param.param.kernel; }
INSTANTIATE_TEST_SUITE_P(CausalConv1dUpdate, Contract, testing::ValuesIn(kernels_here("causal_conv1d_update")),
                         kernel_name);
INSTANTIATE_TEST_SUITE_P(CausalConv1dUpdate, Determinism, testing::ValuesIn(kernels_here("causal_conv1d_update")),
                         kernel_name);
INSTANTIATE_TEST_SUITE_P(CausalConv1dUpdate, Refusals, testing::ValuesIn(kernels_here("causal_conv1d_update")),
                         kernel_name);

TEST(Planted, EveryFaultIsFound) {
  const std::pair<const char*, void (*)(CausalConv1dUpdateCase&)> faults[] = {
      {"output element", [](CausalConv1dUpdateCase& c) { c.output.set(300, c.output.get(300) * 1.02F + 0.01F); }},
      {"output NaN", [](CausalConv1dUpdateCase& c) { c.output.set(300, kNaN); }},
      {"padding row", [](CausalConv1dUpdateCase& c) { c.output.set(4 * 768 + 5, 0.1F); }},
      {"history bit",
       [](CausalConv1dUpdateCase& c) { c.conv_state.host<bf16>()[c.state_indices.get_int(1) * 1152 + 17].bits ^= 1; }},
      {"null slot", [](CausalConv1dUpdateCase& c) { c.conv_state.set(77, 0.5F); }},
  };
  CausalConv1dUpdateCase right(problem_of("causal_conv1d_update b=5 n=2 c=384 padded=1"), 12);
  ASSERT_TRUE(right.run({}, {}).ok());
  ASSERT_TRUE(right.verify().ok);
  for (const auto& [name, plant] : faults) {
    CausalConv1dUpdateCase c = right;
    plant(c);
    EXPECT_FALSE(c.verify().ok) << name;
  }
}

TEST(Problem, LinesSayWhatIsWrong) {
  const std::pair<const char*, const char*> wrong[] = {
      {"causal_conv1d_update b=1", "causal_conv1d_update: c: missing, needs a number"},
      {"causal_conv1d_update b=1 c=4",
       "causal_conv1d_update: b, n, c: has 1, 1, 4, needs b >= 0, n >= 0, c a multiple"},
      {"causal_conv1d_update b=3 c=3 slots=3", "causal_conv1d_update: slots: has 3, needs at least 4"},
      {"causal_conv1d_update b=3 c=3 null=5", "causal_conv1d_update: null: has 5, needs 0 or -1"},
      {"causal_conv1d_update b=3 c=3 output_stride=2", "causal_conv1d_update: strides: have x 3, 3, output 2, 3"},
      {"causal_conv1d_update b=3 c=3 output=f32 align=2",
       "causal_conv1d_update: align: has 2, needs 2, 4, 8 or 16 and"},
  };
  for (const auto& [text, expected] : wrong) {
    ProblemLine line;
    ASSERT_TRUE(parse_line(text, &line).ok());
    CausalConv1dUpdateProblem problem;
    const Status status = CausalConv1dUpdateProblem::parse(line, &problem);
    EXPECT_EQ(status.message().substr(0, std::string_view(expected).size()), expected) << text;
  }
}

TEST(Cost, BytesOfTheContract) {
  EXPECT_EQ(bytes(problem_of("causal_conv1d_update b=4 c=384 padded=1")), 3 * 384 * (12 + 4));
  EXPECT_EQ(bytes(problem_of("causal_conv1d_update b=4 n=3 c=384 output=f32")), 4 * 384 * (12 + 18));
}

}  // namespace
}  // namespace silt
