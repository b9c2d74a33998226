// kda_prefill: every kernel at hand, every case. The comments name the row of docs/cases.md.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "kda/prefill/cases.hpp"
#include "kda/shared/layout.hpp"
#include "proof/room_test.hpp"
#include "proof/time_ratio.hpp"

namespace silt {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int64_t kDim = kda::kDim;

constexpr auto problem_of = parsed<KdaPrefillProblem>;

class Numerics : public testing::TestWithParam<KernelLine> {};

TEST_P(Numerics, MatchesTheReference) { expect_right_or_refused<KdaPrefillCase>("kda_prefill", GetParam()); }

TEST_P(Numerics, TheCheckedProblemIsTheLine) {
  KdaPrefillProblem problem = problem_of(GetParam().line);
  EXPECT_EQ(problem_of(problem.line()).line(), problem.line());
  KdaPrefillCase c(problem, 1);
  ASSERT_TRUE(c.upload(GetParam().here.device).ok());
  KdaPrefillProblem checked;
  const Status status = check(c.args(), &checked);
  ASSERT_TRUE(status.ok()) << status.message();
  problem.padded = 0;
  problem.lengths = kda::Lengths::even;
  EXPECT_EQ(checked.line(), problem.line());
}

INSTANTIATE_TEST_SUITE_P(KdaPrefill, Numerics, testing::ValuesIn(every_kernel_every_line("kda_prefill")),
                         [](const auto& param) { return test_name(param.param.here.kernel, param.param.line); });

class EveryKernel : public EveryKernelOf<KdaPrefillCase> {
 protected:
  /// Whether the kernel takes several tokens of a sequence together.
  [[nodiscard]] bool chunked() const { return here().kernel.find("_chunk") != std::string::npos; }
};

class Contract : public EveryKernel {};

// 8: no sequences, no rows, only empty sequences: nothing is touched, also without an initial state
TEST_P(Contract, NothingToDoIsSuccess) {
  for (const char* line : {"kda_prefill seqs=0x0 h=2 slots=3", "kda_prefill seqs=3x0 h=2 initial=1"}) {
    KdaPrefillCase c(problem_of(line), 1);
    expect_right(c);
  }
  KdaPrefillCase empty(problem_of("kda_prefill seqs=3x6 h=2 initial=1"), 1);
  for (int64_t i = 0; i <= 3; ++i) empty.offsets.set_int(i, 4);
  expect_right(empty);
}

// 1: pools of more than 2^31 elements; only the pages of the slots used are touched
TEST_P(Contract, OffsetsAre64Bit) {
  if (here().device.kind != DeviceKind::cpu) return;
  constexpr int32_t kFar[] = {1400, 1366};
  constexpr int64_t kSlots = 1402;
  constexpr int64_t kStateStride = 96 * kDim * kDim;
  constexpr int64_t kConvStride = int64_t{1} << 21;
  KdaPrefillCase c(problem_of("kda_prefill seqs=2x16 h=12"), 2);
  const int64_t slot = c.problem.state_slot_stride;
  const int64_t conv_slot = c.problem.conv_slot_stride;
  ASSERT_TRUE(c.upload(here().device).ok());
  Buffer states(static_cast<size_t>(kSlots * kStateStride) * sizeof(float));
  Buffer histories(static_cast<size_t>(kSlots * kConvStride) * sizeof(bf16));
  const auto copy = [&](bool in) {
    for (int i = 0; i < 2; ++i) {
      float* near = c.state.host<float>() + c.state_indices.get_int(i) * slot;
      float* far = states.as<float>() + kFar[i] * kStateStride;
      std::copy_n(in ? near : far, slot, in ? far : near);
      bf16* near_conv = c.conv_state.host<bf16>() + c.state_indices.get_int(i) * conv_slot;
      bf16* far_conv = histories.as<bf16>() + kFar[i] * kConvStride;
      std::copy_n(in ? near_conv : far_conv, conv_slot, in ? far_conv : near_conv);
    }
  };
  copy(true);
  KdaPrefillArgs args = c.args();
  args.state = view(states.as<float>(), {kSlots, 12, kDim, kDim}, {kStateStride, kDim * kDim, kDim, 1});
  args.conv_state = view(histories.as<bf16>(), {kSlots, 3 * 12 * kDim, 3}, {kConvStride, 1, 3 * 12 * kDim});
  args.state_indices = view(kFar, {2});
  const Status status = kda_prefill(args, launch());
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_TRUE(c.download().ok());
  copy(false);
  const Verdict verdict = c.verify();
  EXPECT_TRUE(verdict.ok) << verdict.detail;
}

// 15, 16, 17, 19: zero vectors, extreme gates and betas, sums of squares beyond the fp32 range
TEST_P(Contract, Extremes) {
  for (const char* line : {"kda_prefill seqs=3x20 h=2", "kda_prefill seqs=3x20 h=2 gate=softplus state=bf16"}) {
    KdaPrefillCase c(problem_of(line), 3);
    const float gates[] = {30, -30, -kInf, kInf};
    for (int64_t i = 0; i < c.raw_gate.elements(); ++i) c.raw_gate.set(i, gates[i / (2 * kDim) % 4]);
    for (int64_t i = 0; i < c.raw_beta.elements(); ++i) c.raw_beta.set(i, i % 3 == 0 ? 40.0F : -40.0F);
    c.A_log.set(0, 6.0F);
    for (int64_t i = 0; i < 20 * 768; ++i) c.x.set(i, 0.0F);
    for (int64_t i = 0; i < 768 * 3; ++i) c.conv_state.set(c.state_indices.get_int(0) * 768 * 3 + i, 0.0F);
    for (int64_t row = 50; row < 60; ++row) {  // q of five tokens, k of five
      for (int64_t i = 0; i < 256; ++i) c.x.set(row * 768 + (row < 55 ? 0 : 256) + i, i % 2 == 0 ? 1e30F : -1e30F);
    }
    expect_right(c);
    for (int64_t i = 0; i < c.output.elements(); ++i) ASSERT_TRUE(std::isfinite(c.output.get(i))) << i;
    EXPECT_EQ(c.output.get(3), 0.0F);
  }
}

// 18: the same keys again and again, beta near 1, no decay: every token undoes the one before, and nothing grows
TEST_P(Contract, IdenticalKeysStayBounded) {
  for (const char* line : {"kda_prefill seqs=1x64 h=1 norm=0 dtype=f32", "kda_prefill seqs=1x64 h=1 gate=softplus"}) {
    KdaPrefillCase c(problem_of(line), 12);
    for (int64_t row = 0; row < 64; ++row) {
      for (int64_t i = 0; i < kDim; ++i) c.x.set(row * 3 * kDim + kDim + i, 0.5F + 0.25F * static_cast<float>(i % 3));
    }
    c.raw_gate.fill([](int64_t) { return -kInf; });
    c.raw_beta.fill([](int64_t) { return 12.0F; });
    expect_right(c);
  }
}

// 21: a NaN reaches later tokens of its own sequence and head, and no others; also none before it in its chunk
TEST_P(Contract, ANaNStaysInItsSequence) {
  for (const int64_t token : {0, 5, 15, 16, 18}) {
    KdaPrefillCase c(problem_of("kda_prefill seqs=3x20 h=2"), 4);
    c.x.set((20 + token) * 768 + 256 + kDim + 5, kNaN);  // sequence 1, k of head 1
    expect_right(c);
    for (int64_t i = 0; i < c.output.elements(); ++i) {
      const int64_t row = i / (2 * kDim);
      const bool hit = row >= 20 + token && row < 40 && i / kDim % 2 == 1;
      ASSERT_EQ(std::isnan(c.output.get(i)), hit) << token << " " << i;
    }
  }
}

// 21: a NaN of q or of the output gate stays in the tokens that read it, and out of the state
TEST_P(Contract, ANaNThatIsOnlyReadStaysOutOfTheState) {
  KdaPrefillCase c(problem_of("kda_prefill seqs=1x32 h=1"), 4);
  c.x.set(4 * 384 + 5, kNaN);  // q of tokens 4 to 7, by the convolution
  c.output_gate.set(20 * kDim + 7, kNaN);
  expect_right(c);
  for (int64_t i = 0; i < c.output.elements(); ++i) {
    const int64_t token = i / kDim;
    ASSERT_EQ(std::isnan(c.output.get(i)), (token >= 4 && token < 8) || i == 20 * kDim + 7) << i;
  }
}

// 31: whatever the slot holds is ignored; the bits are those of a zeroed slot
TEST_P(Contract, WithoutInitialStateIsFromZero) {
  for (const char* line : {"kda_prefill seqs=2x18 h=2 initial=1", "kda_prefill seqs=2x8 h=2 initial=1",
                           "kda_prefill seqs=2x17 h=2 initial=1 layout=ds state=bf16"}) {
    KdaPrefillCase ignored(problem_of(line), 5);
    KdaPrefillCase zeroed = ignored;
    for (int64_t i = 0; i < 2; ++i) {
      ignored.has_initial_state.set_int(i, 0);
      zeroed.has_initial_state.set_int(i, 1);
    }
    ignored.state.fill([](int64_t) { return kNaN; });
    ignored.conv_state.fill([](int64_t) { return kNaN; });
    zeroed.state.fill([](int64_t) { return 0.0F; });
    zeroed.conv_state.fill([](int64_t) { return 0.0F; });
    expect_right(ignored);
    expect_right(zeroed);
    EXPECT_TRUE(expect_bitwise("output", ignored.output.bytes(), zeroed.output.bytes()).ok);
    for (int64_t i = 0; i < 2; ++i) {
      const int64_t slot = ignored.state_indices.get_int(i);
      for (int64_t j = slot * 2 * kDim * kDim; j < (slot + 1) * 2 * kDim * kDim; ++j) {
        ASSERT_EQ(ignored.state.get(j), zeroed.state.get(j)) << j;
      }
    }
  }
}

/// Copies `count` logical elements.
void copy(const CaseTensor& from, int64_t from_index, CaseTensor& to, int64_t to_index, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to.set(to_index + i, from.get(from_index + i));
}

/// Runs the tokens [begin, end) of the whole case's one sequence, with the state that `whole` carries, and puts
/// outputs, state and history back into `whole`.
void run_piece(KdaPrefillCase& whole, const KdaPrefillCase& fresh, int64_t begin, int64_t end, Device device,
               const Launch& launch) {
  KdaPrefillProblem problem = fresh.problem;
  problem.t = end - begin;
  problem.length = problem.t;
  KdaPrefillCase piece(problem, 77);
  for (auto tensor : {&KdaPrefillCase::conv_weight, &KdaPrefillCase::A_log, &KdaPrefillCase::dt_bias,
                      &KdaPrefillCase::norm_weight, &KdaPrefillCase::state_indices}) {
    piece.*tensor = fresh.*tensor;
  }
  piece.state = whole.state;
  piece.conv_state = whole.conv_state;
  const int64_t p = problem.p();
  copy(fresh.x, begin * 3 * p, piece.x, 0, problem.t * 3 * p);
  copy(fresh.raw_gate, begin * p, piece.raw_gate, 0, problem.t * p);
  copy(fresh.raw_beta, begin * problem.h, piece.raw_beta, 0, problem.t * problem.h);
  copy(fresh.output_gate, begin * p, piece.output_gate, 0, problem.t * p);
  const Status status = piece.run(device, launch);
  ASSERT_TRUE(status.ok()) << status.message();
  copy(piece.output, 0, whole.output, begin * p, problem.t * p);
  whole.state = piece.state;
  whole.conv_state = piece.conv_state;
}

/// The token loop of a kernel's target: itself where it takes token by token.
std::string token_loop_of(const std::string& kernel) {
  const size_t chunk = kernel.find("chunk16");
  return chunk == std::string::npos ? kernel : kernel.substr(0, chunk) + "tokens";
}

/// All tokens of `whole` in pieces. Pieces too short for a chunked kernel go to the token loop of the same target, as a
/// call without a policy would have it.
void run_pieces(KdaPrefillCase& whole, int64_t piece, const KernelHere& here) {
  const KdaPrefillCase fresh = whole;
  ASSERT_TRUE(whole.upload({}).ok());  // keeps the pools as they were, for verify
  for (int64_t begin = 0; begin < whole.problem.t; begin += piece) {
    const int64_t end = std::min(begin + piece, whole.problem.t);
    const std::string kernel = end - begin >= 16 ? here.kernel : token_loop_of(here.kernel);
    Launch launch;
    launch.policy = Policy::require(kernel);
    run_piece(whole, fresh, begin, end, here.device, launch);
    if (testing::Test::HasFatalFailure()) return;
  }
}

// 30: a sequence in pieces of 1, 7 and 64 tokens is the sequence as a whole
TEST_P(Contract, PiecesMakeTheWhole) {
  const KdaPrefillCase fresh(problem_of("kda_prefill seqs=1x131 h=2"), 6);
  KdaPrefillCase whole = fresh;
  expect_right(whole);
  for (const int64_t piece : {1, 7, 16, 64}) {
    KdaPrefillCase pieces = fresh;
    run_pieces(pieces, piece, here());
    ASSERT_FALSE(HasFatalFailure()) << piece;
    const Verdict verdict = pieces.verify();
    EXPECT_TRUE(verdict.ok) << piece << ": " << verdict.detail;
    if (here().device.kind != DeviceKind::cpu) continue;
    // The same bits: of token loops always, of chunks where they fall on the same tokens.
    if (chunked() && piece % 16 != 0) continue;
    EXPECT_TRUE(expect_bitwise("output", pieces.output.bytes(), whole.output.bytes()).ok) << piece;
    EXPECT_TRUE(expect_bitwise("state", pieces.state.bytes(), whole.state.bytes()).ok) << piece;
    EXPECT_TRUE(expect_bitwise("history", pieces.conv_state.bytes(), whole.conv_state.bytes()).ok) << piece;
  }
}

/// Both on the same inputs: the worst of a head's outputs and of its state rows.
double distance(const KdaPrefillCase& a, const KdaPrefillCase& b) {
  double worst = 0;
  const auto rows = [&](const CaseTensor& x, const CaseTensor& y) {
    for (int64_t at = 0; at < x.elements(); at += kDim) {
      double apart = 0;
      double size = 0;
      for (int64_t i = at; i < at + kDim; ++i) {
        apart += std::pow(static_cast<double>(x.get(i)) - static_cast<double>(y.get(i)), 2);
        size += std::pow(static_cast<double>(y.get(i)), 2);
      }
      worst = std::max(worst, apart == 0 ? 0 : std::sqrt(apart / size));
    }
  };
  rows(a.output, b.output);
  rows(a.state, b.state);
  return worst;
}

// 16: chunks are the token loop, as near as the contract says, over 512 tokens and the whole range of the gates
TEST_P(Contract, ChunksAreTheTokenLoop) {
  if (!chunked() || here().device.kind != DeviceKind::cpu) return;
  struct Range {
    float gate;
    float a_log;
  };
  const std::string loop = token_loop_of(here().kernel);
  for (const auto& [gate, a_log] : {Range{0, 0}, Range{30, 6}, Range{-30, 6}, Range{-kInf, 0}, Range{2, -3}}) {
    for (const char* line :
         {"kda_prefill seqs=1x512 h=2 norm=0 dtype=f32", "kda_prefill seqs=1x512 h=2 norm=0 dtype=f32 gate=softplus"}) {
      KdaPrefillCase chunks(problem_of(line), 13);
      for (int64_t i = 0; i < chunks.raw_gate.elements(); ++i) {
        if (gate != 0) chunks.raw_gate.set(i, i % 5 == 0 ? chunks.raw_gate.get(i) : gate);
      }
      chunks.A_log.set(0, a_log);
      KdaPrefillCase tokens = chunks;
      ASSERT_TRUE(chunks.run(here().device, launch()).ok());
      ASSERT_TRUE(tokens.run(here().device, {.policy = Policy::require(loop)}).ok());
      const double apart = distance(chunks, tokens);
      RecordProperty(fmt::format("apart_{}_{}_{}", gate, a_log, chunks.problem.gate == kda::Gate::safe ? 1 : 0),
                     fmt::format("{:.2e}", apart));
      EXPECT_LE(apart, kKdaPrefillApart) << line << " " << gate << " " << a_log;
    }
  }
}

// 36d: no slower than 1.5 times normal data
TEST_P(Contract, DenormalsCostNothing) {
  if (here().device.kind != DeviceKind::cpu || here().kernel == "cpu_reference") return;
  KdaPrefillCase normal(problem_of("kda_prefill seqs=1x16 h=2"), 11);
  // k of both heads, and what the history holds of it, are zero: nothing lifts the state again.
  for (int64_t row = 0; row < 16; ++row) {
    for (int64_t i = 256; i < 512; ++i) normal.x.set(row * 768 + i, 0.0F);
  }
  normal.conv_state.fill([](int64_t) { return 0.0F; });
  KdaPrefillCase denormal = normal;
  denormal.state.fill([](int64_t i) { return i % 2 == 0 ? 1e-40F : -3e-39F; });
  Launch alone = launch();
  alone.threads = 1;
  const double ratio =
      time_ratio([&] { ASSERT_TRUE(normal.upload(here().device).ok() && denormal.upload(here().device).ok()); },
                 [&] { ASSERT_TRUE(kda_prefill(denormal.args(), alone).ok()); },
                 [&] { ASSERT_TRUE(kda_prefill(normal.args(), alone).ok()); }, 1.5);
  RecordProperty("ratio", fmt::format("{:.2f}", ratio));
  EXPECT_LE(ratio, 1.5);
}

class LongRuns : public EveryKernel {};

// 22: 4,096 tokens of one sequence, in one call
TEST_P(LongRuns, ALongSequenceStaysExact) {
  KdaPrefillCase c(problem_of("kda_prefill seqs=1x4096 h=1 norm=0"), 13);
  expect_right(c);
}

class Determinism : public EveryKernel {};

// 25, 26, 27
TEST_P(Determinism, ThreadsDoNotMatter) {
  for (const char* line :
       {"kda_prefill seqs=6x15 h=3 t=90 lengths=ragged padded=1 layout=ds initial=1",
        "kda_prefill seqs=1x35 h=1 state=bf16", "kda_prefill seqs=3x17 h=2 dtype=f32 norm=0 padded=1",
        "kda_prefill seqs=1x40 h=3 layout=ds", "kda_prefill seqs=24x1 h=1 state=bf16"}) {
    KdaPrefillCase first(problem_of(line), 7);
    ASSERT_TRUE(first.run(here().device, launch()).ok());
    for (const int threads : {1, 2, 3, 8, 64}) {
      KdaPrefillCase split(first.problem, 7);
      Launch with = launch();
      with.threads = threads;
      ASSERT_TRUE(split.run(here().device, with).ok());
      ASSERT_TRUE(expect_bitwise("output", split.output.bytes(), first.output.bytes()).ok) << threads;
      ASSERT_TRUE(expect_bitwise("state", split.state.bytes(), first.state.bytes()).ok) << threads;
      ASSERT_TRUE(expect_bitwise("history", split.conv_state.bytes(), first.conv_state.bytes()).ok) << threads;
    }
  }
}

// 27: a sequence alone, in another slot and among others has the same bits
TEST_P(Determinism, ASequenceDependsOnItselfOnly) {
  constexpr int64_t kState = 2 * kDim * kDim;
  constexpr int64_t kConv = 2 * kDim * 3 * 3;
  for (const char* options : {"", " state=bf16", " layout=ds"}) {
    const KdaPrefillCase fresh(problem_of(fmt::format("kda_prefill seqs=5x21 h=2 slots=9{}", options)), 10);
    KdaPrefillCase many = fresh;
    ASSERT_TRUE(many.run(here().device, launch()).ok());
    for (const int64_t row : {0, 3, 4}) {
      KdaPrefillCase alone(problem_of(fmt::format("kda_prefill seqs=1x21 h=2 slots=4{}", options)), 99);
      for (auto tensor : {&KdaPrefillCase::conv_weight, &KdaPrefillCase::A_log, &KdaPrefillCase::dt_bias,
                          &KdaPrefillCase::norm_weight}) {
        alone.*tensor = fresh.*tensor;
      }
      for (auto tensor :
           {&KdaPrefillCase::x, &KdaPrefillCase::raw_gate, &KdaPrefillCase::raw_beta, &KdaPrefillCase::output_gate}) {
        CaseTensor& to = alone.*tensor;
        copy(fresh.*tensor, row * to.elements(), to, 0, to.elements());
      }
      const int64_t slot = fresh.state_indices.get_int(row);
      const int64_t own = alone.state_indices.get_int(0);
      copy(fresh.state, slot * kState, alone.state, own * kState, kState);
      copy(fresh.conv_state, slot * kConv, alone.conv_state, own * kConv, kConv);
      ASSERT_TRUE(alone.run(here().device, launch()).ok());
      for (int64_t i = 0; i < alone.output.elements(); ++i) {
        ASSERT_EQ(alone.output.get(i), many.output.get(row * alone.output.elements() + i)) << row << " " << i;
      }
      for (int64_t i = 0; i < kState; ++i) {
        ASSERT_EQ(alone.state.get(own * kState + i), many.state.get(slot * kState + i)) << row << " " << i;
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
        KdaPrefillCase c(problem_of(caller == 0 ? "kda_prefill seqs=1x18 h=3"
                                                : "kda_prefill seqs=1x21 h=2 state=bf16 gate=softplus layout=ds"),
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
  using A = KdaPrefillArgs;
  struct Wrong {
    const char* text;
    void (*plant)(A&);
  };
  static const int32_t falling[] = {0, 4, 3, 6};
  static const int32_t beyond[] = {0, 2, 4, 7};
  const Wrong wrong[] = {
      {"x: has a null pointer, needs 4608 elements", [](A& a) { a.x.data = nullptr; }},
      {"x: dtype: has i32, needs bf16 or f32", [](A& a) { a.x.dtype = DType::i32; }},
      {"x: shape: has [6, 700], needs [T, 3 * 128 * H]", [](A& a) { a.x.shape[1] = 700; }},
      {"x: stride of axis 1: has 2, needs 1", [](A& a) { a.x.stride[1] = 2; }},
      {"conv_weight: absent, needs [3, 4, 256]", [](A& a) { a.conv_weight = {}; }},
      {"conv_weight: dtype: has bf16, needs f32", [](A& a) { a.conv_weight.dtype = DType::bf16; }},
      {"conv_bias: shape: has [256], needs [768]", [](A& a) { a.conv_bias.shape[0] = 256; }},
      {"conv_state: absent, needs [4, 768, 3]", [](A& a) { a.conv_state = {}; }},
      {"conv_state: dtype: has f32, needs bf16", [](A& a) { a.conv_state.dtype = DType::f32; }},
      {"conv_state: inner strides: has [1, 3], needs [1, 768] (SD) or [3, 1] (DS)",
       [](A& a) { a.conv_state.stride[2] = 3; }},
      {"raw_gate: absent, needs [6, 2, 128]", [](A& a) { a.raw_gate = {}; }},
      {"raw_gate: dtype: has f32, needs bf16", [](A& a) { a.raw_gate.dtype = DType::f32; }},
      {"raw_beta: shape: has [6, 1], needs [6, 2]", [](A& a) { a.raw_beta.shape[1] = 1; }},
      {"A_log: shape: has [3], needs [2]", [](A& a) { a.A_log.shape[0] = 3; }},
      {"dt_bias: absent, needs [2, 128]", [](A& a) { a.dt_bias = {}; }},
      {"offsets: absent, needs [4]", [](A& a) { a.offsets = {}; }},
      {"offsets: shape: has [3], needs [4]", [](A& a) { a.offsets.shape[0] = 3; }},
      {"offsets: dtype: has f32, needs i32", [](A& a) { a.offsets.dtype = DType::f32; }},
      {"state_indices: shape: has [], needs [N]", [](A& a) { a.state_indices = {}; }},
      {"has_initial_state: shape: has [2], needs [3]", [](A& a) { a.has_initial_state.shape[0] = 2; }},
      {"has_initial_state: dtype: has f32, needs i32", [](A& a) { a.has_initial_state.dtype = DType::f32; }},
      {"state: shape: has [4, 2, 128], needs [slots, 2, 128, 128]", [](A& a) { a.state.rank = 3; }},
      {"state: shape: has [4, 3, 128, 128], needs [4, 2, 128, 128]", [](A& a) { a.state.shape[1] = 3; }},
      {"state: dtype: has i32, needs f32 or bf16", [](A& a) { a.state.dtype = DType::i32; }},
      {"output_gate: absent, needs [6, 2, 128]", [](A& a) { a.output_gate = {}; }},
      {"norm_weight: absent, needs [128]", [](A& a) { a.norm_weight = {}; }},
      {"output: absent, needs [6, 2, 128]", [](A& a) { a.output = {}; }},
      {"output: dtype: has f32, needs bf16", [](A& a) { a.output.dtype = DType::f32; }},
      {"output: stride of axis 0: has 255, needs at least 256", [](A& a) { a.output.stride[0] = 255; }},
      {"lower_bound: has 0, needs [-5, 0)", [](A& a) { a.lower_bound = 0; }},
      {"norm_eps: has -1, needs a finite number >= 0", [](A& a) { a.norm_eps = -1; }},
      {"null_slot: has 5, needs 0 or -1", [](A& a) { a.null_slot = 5; }},
      {"output: has memory of x, needs memory of its own", [](A& a) { a.output.data = const_cast<void*>(a.x.data); }},
      {"state: has memory of conv_state, needs memory of its own", [](A& a) { a.state.data = a.conv_state.data; }},
      {"offsets: device: has ",
       [](A& a) {
         a.offsets.device = {a.x.device.kind == DeviceKind::cpu ? DeviceKind::cuda : DeviceKind::cpu, 0};
       }},
  };
  const Wrong wrong_on_the_host[] = {
      {"offsets: entry 2: has 3, needs 4..6", [](A& a) { a.offsets = view(falling, {4}); }},
      {"offsets: entry 3: has 7, needs 4..6", [](A& a) { a.offsets = view(beyond, {4}); }},
  };
  KdaPrefillCase c(problem_of("kda_prefill seqs=3x2 h=2 bias=1 initial=1"), 8);
  ASSERT_TRUE(c.upload(here().device).ok());
  const std::vector<std::byte> before[] = {c.state.bytes(), c.conv_state.bytes(), c.output.bytes()};
  const auto expect_refused = [&](const Wrong& w) {
    A args = c.args();
    w.plant(args);
    const Status status = kda_prefill(args, launch());
    EXPECT_EQ(status.code(), StatusCode::invalid_argument) << w.text;
    const std::string text = std::string("kda_prefill: ") + w.text;
    EXPECT_EQ(status.message().substr(0, text.size()), text);
  };
  for (const Wrong& w : wrong) expect_refused(w);
  if (here().device.kind == DeviceKind::cpu) {
    for (const Wrong& w : wrong_on_the_host) expect_refused(w);
  }
  ASSERT_TRUE(c.download().ok());
  EXPECT_TRUE(expect_bitwise("state", c.state.bytes(), before[0]).ok);
  EXPECT_TRUE(expect_bitwise("conv_state", c.conv_state.bytes(), before[1]).ok);
  EXPECT_TRUE(expect_bitwise("output", c.output.bytes(), before[2]).ok);
  if (!chunked()) expect_right(c);
}

// A chunked kernel says why it leaves calls without a full chunk to the token loop
TEST_P(Refusals, FewTokensFillNoChunk) {
  if (!chunked() || here().device.kind != DeviceKind::cpu) return;
  KdaPrefillCase c(problem_of("kda_prefill seqs=3x5 h=2"), 8);
  const Status status = c.run(here().device, launch());
  EXPECT_EQ(status.code(), StatusCode::unsupported);
  EXPECT_NE(status.message().find("refuses: t: has 15, needs 16 or more, so that a chunk is full"), std::string::npos)
      << status.message();
}

std::string kernel_name(const testing::TestParamInfo<KernelHere>& param) { return param.param.kernel; }
INSTANTIATE_TEST_SUITE_P(KdaPrefill, Contract, testing::ValuesIn(kernels_here("kda_prefill")), kernel_name);
INSTANTIATE_TEST_SUITE_P(KdaPrefill, LongRuns, testing::ValuesIn(kernels_here("kda_prefill")), kernel_name);
INSTANTIATE_TEST_SUITE_P(KdaPrefill, Determinism, testing::ValuesIn(kernels_here("kda_prefill")), kernel_name);
INSTANTIATE_TEST_SUITE_P(KdaPrefill, Refusals, testing::ValuesIn(kernels_here("kda_prefill")), kernel_name);

TEST(Planted, EveryFaultIsFound) {
  using C = KdaPrefillCase;
  const std::pair<const char*, void (*)(C&)> faults[] = {
      {"output element",
       [](C& c) {
         const int64_t at = c.offsets.get_int(0) * kDim + 9;
         c.output.set(at, c.output.get(at) * 1.02F + 0.01F);
       }},
      {"last token", [](C& c) { c.output.set((c.offsets.get_int(5) - 1) * kDim, kNaN); }},
      {"row before the first sequence", [](C& c) { c.output.set(0, 0.5F); }},
      {"state of the last sequence",
       [](C& c) {
         const int64_t at = c.state_indices.get_int(4) * kDim * kDim + 7 * kDim;
         for (int64_t i = at; i < at + kDim; ++i) c.state.set(i, c.state.get(i) * 1.001F);
       }},
      {"history of the last sequence",
       [](C& c) { c.conv_state.host<bf16>()[c.state_indices.get_int(4) * 1152 + 99].bits ^= 1; }},
      {"state of an empty sequence", [](C& c) { c.state.set(c.state_indices.get_int(1) * kDim * kDim, 0.5F); }},
      {"history of an empty sequence", [](C& c) { c.conv_state.set(c.state_indices.get_int(1) * 1152, 0.5F); }},
  };
  KdaPrefillCase right(problem_of("kda_prefill seqs=5x5 h=1 t=29 lengths=ragged"), 9);
  ASSERT_EQ(right.offsets.get_int(1), right.offsets.get_int(2)) << "sequence 1 is empty";
  ASSERT_GT(right.offsets.get_int(0), 0);
  ASSERT_LT(right.offsets.get_int(4), right.offsets.get_int(5));
  ASSERT_TRUE(right.run({}, {}).ok());
  ASSERT_TRUE(right.verify().ok);
  for (const auto& [name, plant] : faults) {
    KdaPrefillCase c = right;
    plant(c);
    EXPECT_FALSE(c.verify().ok) << name;
  }
}

TEST(Problem, LinesSayWhatIsWrong) {
  const std::pair<const char*, const char*> wrong[] = {
      {"kda_prefill h=1", "kda_prefill: seqs: has \"\", needs two whole numbers, as in 8x1024"},
      {"kda_prefill seqs=2x2 h=0", "kda_prefill: h: has 0, needs h >= 1"},
      {"kda_prefill seqs=2x2 h=1 t=9", "kda_prefill: seqs, t: has 2x2, 9, needs"},
      {"kda_prefill seqs=2x2 h=1 slots=2", "kda_prefill: slots: has 2, needs at least 3"},
      {"kda_prefill seqs=2x2 h=1 gate=softplus lower_bound=-1", "kda_prefill: lower_bound: has -1, needs [-5, 0)"},
      {"kda_prefill seqs=2x2 h=1 conv_slot_stride=3", "kda_prefill: strides: have output 128, conv_slot 3"},
      {"kda_prefill seqs=2x2 h=1 dtype=f32 align=2", "kda_prefill: align: has 2, needs 2, 4, 8 or 16 and"},
  };
  for (const auto& [text, expected] : wrong) {
    ProblemLine line;
    ASSERT_TRUE(parse_line(text, &line).ok());
    KdaPrefillProblem problem;
    const Status status = KdaPrefillProblem::parse(line, &problem);
    EXPECT_EQ(status.message().substr(0, std::string_view(expected).size()), expected) << text;
  }
}

TEST(Cost, BytesOfTheContract) {
  // One token: what a decode step moves.
  EXPECT_EQ(bytes(problem_of("kda_prefill seqs=1x1 h=1")), 137218);
  EXPECT_EQ(bytes(problem_of("kda_prefill seqs=3x7 h=2 padded=1")), 2 * (2 * (131072 + 4608) + 14 * 1538));
}

}  // namespace
}  // namespace silt
