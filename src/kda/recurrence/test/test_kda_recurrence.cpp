// kda_recurrence: every kernel at hand, every case. The comments name the row of docs/cases.md.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "kda/recurrence/cases.hpp"
#include "kda/shared/layout.hpp"
#include "proof/room_test.hpp"
#include "proof/time_ratio.hpp"

namespace silt {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int64_t kDim = kda::kDim;

constexpr auto problem_of = parsed<KdaRecurrenceProblem>;

class Numerics : public testing::TestWithParam<KernelLine> {};

TEST_P(Numerics, MatchesTheReference) { expect_right_or_refused<KdaRecurrenceCase>("kda_recurrence", GetParam()); }

TEST_P(Numerics, TheCheckedProblemIsTheLine) {
  KdaRecurrenceProblem problem = problem_of(GetParam().line);
  EXPECT_EQ(problem_of(problem.line()).line(), problem.line());
  KdaRecurrenceCase c(problem, 1);
  ASSERT_TRUE(c.upload(GetParam().here.device).ok());
  KdaRecurrenceProblem checked;
  const Status status = check(c.args(), &checked);
  ASSERT_TRUE(status.ok()) << status.message();
  problem.padded = 0;
  problem.lengths = kda::Lengths::even;
  EXPECT_EQ(checked.line(), problem.line());
}

INSTANTIATE_TEST_SUITE_P(KdaRecurrence, Numerics, testing::ValuesIn(every_kernel_every_line("kda_recurrence")),
                         [](const auto& param) { return test_name(param.param.here.kernel, param.param.line); });

using EveryKernel = EveryKernelOf<KdaRecurrenceCase>;

class Contract : public EveryKernel {};

// 8: no sequences, no rows, only empty sequences: nothing is touched
TEST_P(Contract, NothingToDoIsSuccess) {
  for (const char* line : {"kda_recurrence seqs=0x0 h=2 slots=3", "kda_recurrence seqs=3x0 h=2"}) {
    KdaRecurrenceCase c(problem_of(line), 1);
    expect_right(c);
  }
  KdaRecurrenceCase empty(problem_of("kda_recurrence seqs=3x2 h=2"), 1);
  for (int64_t i = 0; i <= 3; ++i) empty.offsets.set_int(i, 4);
  expect_right(empty);
}

// 1: the pool has more than 2^31 elements; only the pages of the slots used are touched
TEST_P(Contract, OffsetsAre64Bit) {
  if (here().device.kind != DeviceKind::cpu) return;
  constexpr int32_t kFar[] = {1400, 1366};
  constexpr int64_t kSlots = 1402;
  KdaRecurrenceCase c(problem_of("kda_recurrence seqs=2x2 h=96"), 2);
  const int64_t slot = c.problem.state_slot_stride;
  ASSERT_TRUE(c.upload(here().device).ok());
  Buffer pool(static_cast<size_t>(kSlots * slot) * sizeof(float));
  const auto copy = [&](bool in) {
    for (int i = 0; i < 2; ++i) {
      float* near = c.state.host<float>() + c.state_indices.get_int(i) * slot;
      float* far = pool.as<float>() + kFar[i] * slot;
      std::copy_n(in ? near : far, slot, in ? far : near);
    }
  };
  copy(true);
  KdaRecurrenceArgs args = c.args();
  args.state = view(pool.as<float>(), {kSlots, 96, kDim, kDim});
  args.state_indices = view(kFar, {2});
  const Status status = kda_recurrence(args, launch());
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_TRUE(c.download().ok());
  copy(false);
  const Verdict verdict = c.verify();
  EXPECT_TRUE(verdict.ok) << verdict.detail;
}

// Verification: column k - 1 holds, bit for bit, what k tokens in place leave; the read slot is only written as a
// column
TEST_P(Contract, ATableHoldsEveryTokensState) {
  KdaRecurrenceCase table(problem_of("kda_recurrence seqs=1x4 h=2 columns=5"), 20);
  table.accepted.set_int(0, 5);
  const int64_t elements = 2 * kDim * kDim;
  const int64_t read = table.state_indices.get_int(4);
  for (int64_t i = 0; i < elements; ++i)
    table.state.set(read * elements + i, static_cast<float>(i % 97) * 0.01F - 0.4F);
  const KdaRecurrenceCase fresh = table;
  expect_right(table);
  for (int32_t tokens = 1; tokens <= 4; ++tokens) {
    KdaRecurrenceCase plain(problem_of("kda_recurrence seqs=1x4 h=2"), 20);
    plain.q = fresh.q;
    plain.k = fresh.k;
    plain.v = fresh.v;
    plain.raw_gate = fresh.raw_gate;
    plain.raw_beta = fresh.raw_beta;
    plain.A_log = fresh.A_log;
    plain.dt_bias = fresh.dt_bias;
    plain.offsets.set_int(1, tokens);
    const int64_t slot = plain.state_indices.get_int(0);
    for (int64_t i = 0; i < elements; ++i) plain.state.set(slot * elements + i, fresh.state.get(read * elements + i));
    expect_right(plain);
    const int64_t column = table.state_indices.get_int(tokens - 1);
    for (int64_t i = 0; i < elements; ++i) {
      ASSERT_EQ(table.state.get(column * elements + i), plain.state.get(slot * elements + i)) << tokens << " " << i;
    }
  }
}

// 2
TEST_P(Contract, ManySequencesTimesHeads) {
  KdaRecurrenceCase c(problem_of("kda_recurrence seqs=1024x1 h=96 offsets=0 slots=3 padded=1022 q_stride=0 k_stride=0 "
                                 "v_stride=0 gate_stride=0 beta_stride=0"),
                      3);
  expect_right(c);
}

// Tokens one by one and all at once: the same bits with an fp32 state
TEST_P(Contract, TokensOneByOneAreTheSame) {
  KdaRecurrenceCase whole(problem_of("kda_recurrence seqs=2x9 h=2"), 4);
  const KdaRecurrenceCase fresh = whole;
  ASSERT_TRUE(whole.run(here().device, launch()).ok());
  KdaRecurrenceCase one(problem_of("kda_recurrence seqs=2x1 h=2 offsets=0"), 5);
  one.A_log = fresh.A_log;
  one.dt_bias = fresh.dt_bias;
  one.state = fresh.state;
  one.state_indices = fresh.state_indices;
  for (int64_t t = 0; t < 9; ++t) {
    const auto take = [&](const CaseTensor& from, CaseTensor& to, int64_t row) {
      for (int64_t i = 0; i < 2 * row; ++i) to.set(i, from.get((i / row * 9 + t) * row + i % row));
    };
    take(fresh.q, one.q, 2 * kDim);
    take(fresh.k, one.k, 2 * kDim);
    take(fresh.v, one.v, 2 * kDim);
    take(fresh.raw_gate, one.raw_gate, 2 * kDim);
    take(fresh.raw_beta, one.raw_beta, 2);
    ASSERT_TRUE(one.run(here().device, launch()).ok());
    for (int64_t i = 0; i < 4 * kDim; ++i) {
      ASSERT_EQ(one.output.get(i), whole.output.get((i / (2 * kDim) * 9 + t) * 2 * kDim + i % (2 * kDim))) << t;
    }
  }
  EXPECT_TRUE(expect_bitwise("state", one.state.bytes(), whole.state.bytes()).ok);
}

// 15, 16, 17, 19: zero vectors, extreme gates and betas, sums of squares beyond the fp32 range
TEST_P(Contract, Extremes) {
  for (const char* line : {"kda_recurrence seqs=3x4 h=2", "kda_recurrence seqs=3x4 h=2 gate=softplus state=bf16"}) {
    KdaRecurrenceCase c(problem_of(line), 6);
    const float gates[] = {30, -30, -kInf, kInf};
    for (int64_t i = 0; i < c.raw_gate.elements(); ++i) c.raw_gate.set(i, gates[i / (2 * kDim) % 4]);
    for (int64_t i = 0; i < c.raw_beta.elements(); ++i) c.raw_beta.set(i, i % 3 == 0 ? 40.0F : -40.0F);
    c.A_log.set(0, 6.0F);
    for (int64_t i = 0; i < 4 * 2 * kDim; ++i) c.q.set(i, 0.0F);
    for (int64_t i = 4 * 2 * kDim; i < 8 * 2 * kDim; ++i) c.k.set(i, 0.0F);
    for (int64_t i = 8 * 2 * kDim; i < 12 * 2 * kDim; ++i) {  // q of two tokens, k of two
      (i < 10 * 2 * kDim ? c.q : c.k).set(i, i % 2 == 0 ? 3e38F : -1e30F);
    }
    expect_right(c);
    for (int64_t i = 0; i < c.output.elements(); ++i) ASSERT_TRUE(std::isfinite(c.output.get(i))) << i;
    EXPECT_EQ(c.output.get(3), 0.0F);
  }
}

// 18: identical keys, beta 1, no decay: the state is replaced, not accumulated
TEST_P(Contract, IdenticalKeysStayBounded) {
  KdaRecurrenceCase c(problem_of("kda_recurrence seqs=1x512 h=1"), 7);
  for (int64_t i = 0; i < c.k.elements(); ++i) c.k.set(i, c.k.get(i % kDim));
  c.raw_gate.fill([](int64_t) { return -kInf; });
  c.raw_beta.fill([](int64_t) { return 20.0F; });
  expect_right(c);
  for (int64_t i = 0; i < c.state.elements(); ++i) {
    const float s = c.state.get(i);
    ASSERT_TRUE(!(std::abs(s) > 4.0F)) << i;
  }
}

class LongRuns : public EveryKernel {};

// 22: 4,096 tokens of one sequence, in one call
TEST_P(LongRuns, ALongSequenceStaysExact) {
  KdaRecurrenceCase c(problem_of("kda_recurrence seqs=1x4096 h=1"), 13);
  expect_right(c);
}

// 21: a NaN reaches the later tokens of its head and nothing else
TEST_P(Contract, ANaNStaysInItsSequence) {
  KdaRecurrenceCase c(problem_of("kda_recurrence seqs=3x4 h=2"), 8);
  c.k.set((1 * 4 + 2) * 2 * kDim + kDim + 5, kNaN);  // sequence 1, token 2, head 1
  expect_right(c);
  for (int64_t i = 0; i < c.output.elements(); ++i) {
    const int64_t row = i / (2 * kDim);
    const bool hit = (row == 6 || row == 7) && i / kDim % 2 == 1;
    ASSERT_EQ(std::isnan(c.output.get(i)), hit) << i;
  }
}

// 36d: no slower than 1.5 times normal data; with IEEE handling it would be 35 times
TEST_P(Contract, DenormalsCostNothing) {
  if (here().device.kind != DeviceKind::cpu || here().kernel == "cpu_reference") return;
  KdaRecurrenceCase normal(problem_of("kda_recurrence seqs=1x4 h=2"), 11);
  normal.k.fill([](int64_t) { return 0.0F; });  // nothing lifts the state again
  KdaRecurrenceCase denormal = normal;
  denormal.state.fill([](int64_t i) { return i % 2 == 0 ? 1e-40F : -3e-39F; });
  Launch alone = launch();
  alone.threads = 1;
  const double ratio =
      time_ratio([&] { ASSERT_TRUE(normal.upload(here().device).ok() && denormal.upload(here().device).ok()); },
                 [&] { ASSERT_TRUE(kda_recurrence(denormal.args(), alone).ok()); },
                 [&] { ASSERT_TRUE(kda_recurrence(normal.args(), alone).ok()); }, 1.5);
  RecordProperty("ratio", fmt::format("{:.2f}", ratio));
  EXPECT_LE(ratio, 1.5);
}

class Determinism : public EveryKernel {};

// 26, 27
TEST_P(Determinism, ThreadsDoNotMatter) {
  for (const char* line :
       {"kda_recurrence seqs=6x4 h=3 t=29 lengths=ragged padded=1", "kda_recurrence seqs=1x9 h=1 state=bf16",
        "kda_recurrence seqs=1x5 h=1 qkv=f32 output=bf16", "kda_recurrence seqs=1x9 h=1 columns=4",
        "kda_recurrence seqs=3x1 h=3 offsets=0 padded=1 state=bf16"}) {
    KdaRecurrenceCase first(problem_of(line), 9);
    ASSERT_TRUE(first.run(here().device, launch()).ok());
    for (const int threads : {1, 2, 3, 8, 64}) {
      KdaRecurrenceCase split(first.problem, 9);
      Launch with = launch();
      with.threads = threads;
      ASSERT_TRUE(split.run(here().device, with).ok());
      ASSERT_TRUE(expect_bitwise("output", split.output.bytes(), first.output.bytes()).ok) << threads;
      ASSERT_TRUE(expect_bitwise("state", split.state.bytes(), first.state.bytes()).ok) << threads;
    }
  }
}

// 27: a sequence alone, in another slot and among others has the same bits
TEST_P(Determinism, ARowDependsOnItselfOnly) {
  constexpr int64_t kState = 2 * kDim * kDim;
  for (const char* state : {"f32", "bf16"}) {
    const KdaRecurrenceProblem problem = problem_of(fmt::format("kda_recurrence seqs=5x3 h=2 slots=9 state={}", state));
    const KdaRecurrenceCase fresh(problem, 10);
    KdaRecurrenceCase many(problem, 10);
    ASSERT_TRUE(many.run(here().device, launch()).ok());
    for (const int64_t row : {0, 3, 4}) {
      KdaRecurrenceCase alone(problem_of(fmt::format("kda_recurrence seqs=1x3 h=2 slots=4 state={}", state)), 99);
      alone.A_log = fresh.A_log;
      alone.dt_bias = fresh.dt_bias;
      for (auto tensor : {&KdaRecurrenceCase::q, &KdaRecurrenceCase::k, &KdaRecurrenceCase::v,
                          &KdaRecurrenceCase::raw_gate, &KdaRecurrenceCase::raw_beta}) {
        CaseTensor& to = alone.*tensor;
        for (int64_t i = 0; i < to.elements(); ++i) to.set(i, (fresh.*tensor).get(row * to.elements() + i));
      }
      const int64_t slot = fresh.state_indices.get_int(row) * kState;
      const int64_t own = alone.state_indices.get_int(0) * kState;
      for (int64_t i = 0; i < kState; ++i) alone.state.set(own + i, fresh.state.get(slot + i));
      ASSERT_TRUE(alone.run(here().device, launch()).ok());
      for (int64_t i = 0; i < alone.output.elements(); ++i) {
        ASSERT_EQ(alone.output.get(i), many.output.get(row * alone.output.elements() + i)) << row << " " << i;
      }
      for (int64_t i = 0; i < kState; ++i) {
        ASSERT_EQ(alone.state.get(own + i), many.state.get(slot + i)) << row << " " << i;
      }
    }
  }
}

// 28
TEST_P(Determinism, TwoCallersAtOnce) {
  std::vector<std::thread> callers;
  for (uint64_t caller = 0; caller < 2; ++caller) {
    callers.emplace_back([this, caller] {
      for (int run = 0; run < 5; ++run) {
        KdaRecurrenceCase c(problem_of(caller == 0 ? "kda_recurrence seqs=3x5 h=3"
                                                   : "kda_recurrence seqs=2x7 h=2 state=bf16 gate=softplus"),
                            caller);
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
  using A = KdaRecurrenceArgs;
  struct Wrong {
    const char* text;
    void (*plant)(A&);
  };
  static const int32_t falling[] = {0, 4, 3, 6};
  static const int32_t beyond[] = {0, 2, 4, 7};
  static const int32_t negative[] = {-1, 2, 4, 6};
  const Wrong wrong[] = {
      {"q: has a null pointer, needs 1536 elements", [](A& a) { a.q.data = nullptr; }},
      {"q: dtype: has i32, needs bf16 or f32", [](A& a) { a.q.dtype = DType::i32; }},
      {"q: shape: has [6, 2], needs [T, H, 128]", [](A& a) { a.q.rank = 2; }},
      {"q: shape: has [6, 2, 64], needs [6, 2, 128]", [](A& a) { a.q.shape[2] = 64; }},
      {"q: stride of axis 1: has 129, needs 128", [](A& a) { a.q.stride[1] = 129; }},
      {"k: absent, needs [6, 2, 128]", [](A& a) { a.k = {}; }},
      {"k: dtype: has f32, needs bf16", [](A& a) { a.k.dtype = DType::f32; }},
      {"k: shape: has [5, 2, 128], needs [6, 2, 128]", [](A& a) { a.k.shape[0] = 5; }},
      {"v: absent, needs [6, 2, 128]", [](A& a) { a.v = {}; }},
      {"v: stride of axis 0: has -1, needs at least 0", [](A& a) { a.v.stride[0] = -1; }},
      {"raw_gate: absent, needs [6, 2, 128]", [](A& a) { a.raw_gate = {}; }},
      {"raw_gate: dtype: has i32, needs bf16 or f32", [](A& a) { a.raw_gate.dtype = DType::i32; }},
      {"raw_beta: dtype: has f32, needs bf16", [](A& a) { a.raw_beta.dtype = DType::f32; }},
      {"raw_beta: shape: has [6, 3], needs [6, 2]", [](A& a) { a.raw_beta.shape[1] = 3; }},
      {"A_log: shape: has [3], needs [2]", [](A& a) { a.A_log.shape[0] = 3; }},
      {"dt_bias: dtype: has bf16, needs f32", [](A& a) { a.dt_bias.dtype = DType::bf16; }},
      {"offsets: shape: has [3], needs [4]", [](A& a) { a.offsets.shape[0] = 3; }},
      {"offsets: dtype: has f32, needs i32", [](A& a) { a.offsets.dtype = DType::f32; }},
      {"q: shape: has [6, 2, 128], needs [3, 2, 128]", [](A& a) { a.offsets = {}; }},
      {"state_indices: shape: has [], needs [N]", [](A& a) { a.state_indices = {}; }},
      {"state_indices: dtype: has f32, needs i32", [](A& a) { a.state_indices.dtype = DType::f32; }},
      {"state_indices: shape: has [3], needs [N, M] with accepted", [](A& a) { a.accepted = a.state_indices; }},
      {"state_indices: shape: has [1, 3], needs [N]",
       [](A& a) {
         a.state_indices.rank = 2;
         a.state_indices.shape = {1, 3};
         a.state_indices.stride = {3, 1};
       }},
      {"state_indices: shape: has [3, 0], needs M >= 1",
       [](A& a) {
         a.accepted = a.state_indices;
         a.state_indices.rank = 2;
         a.state_indices.shape = {3, 0};
         a.state_indices.stride = {1, 1};
       }},
      {"accepted: dtype: has f32, needs i32",
       [](A& a) {
         a.accepted = a.state_indices;
         a.accepted.dtype = DType::f32;
         a.state_indices.rank = 2;
         a.state_indices.shape = {3, 1};
         a.state_indices.stride = {1, 1};
       }},
      {"state: shape: has [4, 2, 128], needs [slots, 2, 128, 128]", [](A& a) { a.state.rank = 3; }},
      {"state: shape: has [4, 1, 128, 128], needs [4, 2, 128, 128]", [](A& a) { a.state.shape[1] = 1; }},
      {"state: stride of axis 0: has 100, needs at least 32768", [](A& a) { a.state.stride[0] = 100; }},
      {"output: absent, needs [6, 2, 128]", [](A& a) { a.output = {}; }},
      {"output: dtype: has i32, needs bf16 or f32", [](A& a) { a.output.dtype = DType::i32; }},
      {"output: stride of axis 0: has 255, needs at least 256", [](A& a) { a.output.stride[0] = 255; }},
      {"lower_bound: has 0, needs [-5, 0)", [](A& a) { a.lower_bound = 0; }},
      {"lower_bound: has -5.5, needs [-5, 0)", [](A& a) { a.lower_bound = -5.5F; }},
      {"null_slot: has -2, needs 0 or -1", [](A& a) { a.null_slot = -2; }},
      {"output: has memory of v, needs memory of its own", [](A& a) { a.output.data = const_cast<void*>(a.v.data); }},
      {"output: has memory of state, needs memory of its own", [](A& a) { a.output.data = a.state.data; }},
      {"state: device: has ",
       [](A& a) {
         a.state.device = {a.q.device.kind == DeviceKind::cpu ? DeviceKind::cuda : DeviceKind::cpu, 0};
       }},
  };
  const Wrong wrong_on_the_host[] = {
      {"offsets: entry 2: has 3, needs 4..6", [](A& a) { a.offsets = view(falling, {4}); }},
      {"offsets: entry 3: has 7, needs 4..6", [](A& a) { a.offsets = view(beyond, {4}); }},
      {"offsets: entry 0: has -1, needs 0..6", [](A& a) { a.offsets = view(negative, {4}); }},
  };
  KdaRecurrenceCase c(problem_of("kda_recurrence seqs=3x2 h=2"), 10);
  ASSERT_TRUE(c.upload(here().device).ok());
  const std::vector<std::byte> before[] = {c.state.bytes(), c.output.bytes()};
  const auto expect_refused = [&](const Wrong& w) {
    A args = c.args();
    w.plant(args);
    const Status status = kda_recurrence(args, launch());
    EXPECT_EQ(status.code(), StatusCode::invalid_argument) << w.text;
    const std::string text = std::string("kda_recurrence: ") + w.text;
    EXPECT_EQ(status.message().substr(0, text.size()), text);
  };
  for (const Wrong& w : wrong) expect_refused(w);
  if (here().device.kind == DeviceKind::cpu) {
    for (const Wrong& w : wrong_on_the_host) expect_refused(w);
  }
  ASSERT_TRUE(c.download().ok());
  EXPECT_TRUE(expect_bitwise("state", c.state.bytes(), before[0]).ok);
  EXPECT_TRUE(expect_bitwise("output", c.output.bytes(), before[1]).ok);
  expect_right(c);
}

std::string kernel_name(const testing::TestParamInfo<KernelHere>& param) { return param.param.kernel; }
INSTANTIATE_TEST_SUITE_P(KdaRecurrence, Contract, testing::ValuesIn(kernels_here("kda_recurrence")), kernel_name);
INSTANTIATE_TEST_SUITE_P(KdaRecurrence, LongRuns, testing::ValuesIn(kernels_here("kda_recurrence")), kernel_name);
INSTANTIATE_TEST_SUITE_P(KdaRecurrence, Determinism, testing::ValuesIn(kernels_here("kda_recurrence")), kernel_name);
INSTANTIATE_TEST_SUITE_P(KdaRecurrence, Refusals, testing::ValuesIn(kernels_here("kda_recurrence")), kernel_name);

TEST(Planted, EveryFaultIsFound) {
  using C = KdaRecurrenceCase;
  const std::pair<const char*, void (*)(C&)> faults[] = {
      {"output element",
       [](C& c) {
         const int64_t at = c.offsets.get_int(0) * kDim + 9;
         c.output.set(at, c.output.get(at) * 1.02F + 0.01F);
       }},
      {"last token", [](C& c) { c.output.set((c.offsets.get_int(5) - 1) * kDim, kNaN); }},
      {"row before the first sequence", [](C& c) { c.output.set(0, 0.5F); }},
      {"row behind the last sequence", [](C& c) { c.output.set(28 * kDim, 0.5F); }},
      {"state of the last sequence",
       [](C& c) {
         const int64_t at = c.state_indices.get_int(4) * kDim * kDim + 7 * kDim;
         for (int64_t i = at; i < at + kDim; ++i) c.state.set(i, c.state.get(i) * 1.001F);
       }},
      {"state of an empty sequence", [](C& c) { c.state.set(c.state_indices.get_int(1) * kDim * kDim, 0.5F); }},
  };
  KdaRecurrenceCase right(problem_of("kda_recurrence seqs=5x5 h=1 t=29 lengths=ragged"), 11);
  ASSERT_EQ(right.offsets.get_int(1), right.offsets.get_int(2)) << "sequence 1 is empty";
  ASSERT_GT(right.offsets.get_int(0), 0);
  ASSERT_LT(right.offsets.get_int(5), 29);
  ASSERT_TRUE(right.run({}, {}).ok());
  ASSERT_TRUE(right.verify().ok);
  for (const auto& [name, plant] : faults) {
    KdaRecurrenceCase c = right;
    plant(c);
    EXPECT_FALSE(c.verify().ok) << name;
  }
}

TEST(Problem, LinesSayWhatIsWrong) {
  const std::pair<const char*, const char*> wrong[] = {
      {"kda_recurrence h=1", "kda_recurrence: seqs: has \"\", needs two whole numbers, as in 8x1024"},
      {"kda_recurrence seqs=2x2 h=0", "kda_recurrence: h: has 0, needs h >= 1"},
      {"kda_recurrence seqs=2x2 h=1 t=9", "kda_recurrence: seqs, t: has 2x2, 9, needs"},
      {"kda_recurrence seqs=2x2 h=1 offsets=0", "kda_recurrence: offsets: has 0, needs 1 but for seqs=Nx1"},
      {"kda_recurrence seqs=2x2 h=1 slots=2", "kda_recurrence: slots: has 2, needs at least 3"},
      {"kda_recurrence seqs=2x2 h=1 columns=3 slots=5", "kda_recurrence: columns: has 3, needs at least 0 and 6 slots"},
      {"kda_recurrence seqs=2x2 h=1 lengths=odd", "kda_recurrence: lengths: has \"odd\", needs one of even, ragged"},
      {"kda_recurrence seqs=2x2 h=1 output_stride=3", "kda_recurrence: strides: have output 3"},
      {"kda_recurrence seqs=2x2 h=1 dtype=f32 align=2", "kda_recurrence: align: has 2, needs 2, 4, 8 or 16 and"},
  };
  for (const auto& [text, expected] : wrong) {
    ProblemLine line;
    ASSERT_TRUE(parse_line(text, &line).ok());
    KdaRecurrenceProblem problem;
    const Status status = KdaRecurrenceProblem::parse(line, &problem);
    EXPECT_EQ(status.message().substr(0, std::string_view(expected).size()), expected) << text;
  }
}

TEST(Cost, BytesOfTheContract) {
  EXPECT_EQ(bytes(problem_of("kda_recurrence seqs=4x1 h=3 offsets=0 padded=1")), 3 * 3 * (131072 + 128 * 10 + 2));
  EXPECT_EQ(bytes(problem_of("kda_recurrence seqs=2x7 h=1 state=bf16 qkv=f32")), 2 * 65536 + 14 * (128 * 18 + 2));
  EXPECT_EQ(bytes(problem_of("kda_recurrence seqs=2x7 h=1 columns=4")), 2 * 5 * 65536 + 14 * (128 * 10 + 2));
}

}  // namespace
}  // namespace silt
