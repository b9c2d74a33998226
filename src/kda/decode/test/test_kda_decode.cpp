// kda_decode: every kernel at hand, every case. The comments name the row of docs/cases.md.
#include <cmath>
#include <thread>

#include "kda/decode/rows.hpp"
#include "kda/decode/test/kda_decode_test.hpp"
#include "kda/shared/case_pool.hpp"
#include "proof/time_ratio.hpp"

namespace silt {
namespace {

class Numerics : public testing::TestWithParam<KernelLine> {};

TEST_P(Numerics, MatchesTheReference) {
  const auto& [here, line] = GetParam();
  KdaDecodeCase c(problem_of(line), 1);
  const uint64_t before = runs_of("kda_decode", here.kernel);
  const Status status = c.run(here.device, {.policy = Policy::require(here.kernel)});
  if (status.code() == StatusCode::unsupported) {
    // Not for this kernel: the reason names a field, and another kernel of the device takes the call.
    EXPECT_NE(status.message().find("refuses: "), std::string::npos) << status.message();
    const Status other = c.run(here.device, {});
    if (other.code() == StatusCode::unsupported) return;
    ASSERT_TRUE(other.ok()) << other.message();
    const Verdict verdict = c.verify();
    EXPECT_TRUE(verdict.ok) << verdict.detail;
    return;
  }
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(runs_of("kda_decode", here.kernel), before + 1) << "another kernel ran";
  const Verdict verdict = c.verify();
  EXPECT_TRUE(verdict.ok) << verdict.detail;
}

/// What check sees of a case's tensors is what its line says.
TEST_P(Numerics, TheCheckedProblemIsTheLine) {
  KdaDecodeProblem problem = problem_of(GetParam().line);
  EXPECT_EQ(problem_of(problem.line()).line(), problem.line());
  KdaDecodeCase c(problem, 1);
  ASSERT_TRUE(c.upload(GetParam().here.device).ok());
  KdaDecodeProblem checked;
  const Status status = check(c.args(), &checked);
  ASSERT_TRUE(status.ok()) << status.message();
  problem.padded = 0;
  EXPECT_EQ(checked.line(), problem.line());
}

INSTANTIATE_TEST_SUITE_P(KdaDecode, Numerics, testing::ValuesIn(every_kernel_every_line("kda_decode")),
                         [](const auto& param) { return test_name(param.param.here.kernel, param.param.line); });

/// All values of a row of an output are finite.
bool finite(const CaseTensor& tensor, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    if (!std::isfinite(tensor.get(i))) return false;
  }
  return true;
}

class Contract : public EveryKernel {};

// 8
TEST_P(Contract, NoRowsIsSuccess) {
  KdaDecodeCase c(problem_of("kda_decode b=0 h=2 slots=3"), 1);
  expect_right(c);
}

// 1: the pool has more than 2^31 elements; only the pages of the slots used are touched
TEST_P(Contract, OffsetsAre64Bit) {
  if (!in_host_memory(here().device)) return;  // the GPU tests have a pool of their own
  constexpr int64_t kSlots = 1402;
  constexpr int32_t kFar[] = {1400, 1366};
  KdaDecodeCase c(problem_of("kda_decode b=2 h=96 norm=0"), 2);
  const KdaDecodeProblem& p = c.problem;
  const int64_t state_slot = p.state_slot_stride;
  const int64_t conv_slot = p.conv_slot_stride;
  Buffer state(static_cast<size_t>(kSlots * state_slot) * sizeof(float));
  Buffer conv(static_cast<size_t>(kSlots * conv_slot) * sizeof(bf16));
  ASSERT_TRUE(c.upload(here().device).ok());
  for (int row = 0; row < 2; ++row) {
    const int64_t near = c.state_indices.get_int(row);
    std::copy_n(c.state.host<float>() + near * state_slot, state_slot, state.as<float>() + kFar[row] * state_slot);
    std::copy_n(c.conv_state.host<bf16>() + near * conv_slot, conv_slot, conv.as<bf16>() + kFar[row] * conv_slot);
  }
  KdaDecodeArgs args = c.args();
  args.state = view(state.as<float>(), {kSlots, 96, 128, 128});
  args.conv_state = view(conv.as<bf16>(), {kSlots, 3 * p.p(), 3}, {conv_slot, 1, 3 * p.p()});
  args.state_indices = view(kFar, {2});
  for (TensorView* view : {&args.state, &args.conv_state}) view->device = here().device;
  args.state_indices.device = here().device;
  const Status status = kda_decode(args, launch());
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_TRUE(c.download().ok());
  for (int row = 0; row < 2; ++row) {  // what was written, back to where verify looks
    const int64_t near = c.state_indices.get_int(row);
    std::copy_n(state.as<float>() + kFar[row] * state_slot, state_slot, c.state.host<float>() + near * state_slot);
    std::copy_n(conv.as<bf16>() + kFar[row] * conv_slot, conv_slot, c.conv_state.host<bf16>() + near * conv_slot);
  }
  const Verdict verdict = c.verify();
  EXPECT_TRUE(verdict.ok) << verdict.detail;
}

// 2: more (row, head) pairs than a 16-bit grid axis
TEST_P(Contract, ManyRowsTimesHeads) {
  for (const char* line :
       {"kda_decode b=1024 h=96 slots=3 padded=1022 norm=0 x_stride=0 gate_stride=0 beta_stride=0",
        "kda_decode b=1024 h=64 slots=3 padded=1022 norm=0 x_stride=0 gate_stride=0 beta_stride=0"}) {
    KdaDecodeCase c(problem_of(line), 3);
    expect_right(c);
  }
}

// 3, 4, 6: every kind of index, by hand
TEST_P(Contract, IndicesAreFollowed) {
  struct Table {
    int64_t null_slot;
    std::vector<int32_t> indices;
    std::vector<bool> live;
  };
  const int32_t least = std::numeric_limits<int32_t>::min();
  const int32_t most = std::numeric_limits<int32_t>::max();
  const Table tables[] = {
      {0, {7, 0, 3, -1, 11, 1, 12, most, least}, {true, false, true, false, true, true, false, false, false}},
      {-1, {7, 0, 3, -1, 11, 1, 12, most, least}, {true, true, true, false, true, true, false, false, false}},
  };
  for (const Table& table : tables) {
    KdaDecodeProblem problem = problem_of("kda_decode b=9 h=2 slots=12");
    problem.null_slot = table.null_slot;
    KdaDecodeCase c(problem, 4);
    Random random(5);
    c.state.fill([&](int64_t) { return random.uniform(-1, 1); });
    c.conv_state.fill([&](int64_t) { return random.uniform(-1, 1); });
    for (int64_t row = 0; row < 9; ++row) c.state_indices.set_int(row, table.indices[static_cast<size_t>(row)]);
    expect_right(c);
    for (int64_t row = 0; row < 9; ++row) {
      EXPECT_EQ(c.output.get(row * 2 * kDim + 5) != 0, table.live[static_cast<size_t>(row)])
          << "null " << table.null_slot << " row " << row;
    }
  }
}

// 9: inputs and output are slices of one buffer with odd padding
TEST_P(Contract, SlicesOfOneBuffer) {
  if (!in_host_memory(here().device)) return;
  KdaDecodeCase c(problem_of("kda_decode b=4 h=3"), 6);
  ASSERT_TRUE(c.upload(here().device).ok());
  const int64_t p = c.problem.p();
  const int64_t columns[] = {3 * p, p, 3, p, p};  // x, gate, beta, output gate, output
  const int64_t gaps[] = {0, 7, 1, 17, 5};
  const CaseTensor* sources[] = {&c.x, &c.raw_gate, &c.raw_beta, &c.output_gate};
  int64_t begin[5];
  int64_t row_stride = 0;
  for (int i = 0; i < 5; ++i) {
    begin[i] = row_stride + gaps[i];
    row_stride = begin[i] + columns[i];
  }
  row_stride += 3;
  std::vector<bf16> fused(static_cast<size_t>(4 * row_stride), bf16{0xffff});
  bf16* base = fused.data();
  for (int i = 0; i < 4; ++i) {
    for (int64_t j = 0; j < 4 * columns[i]; ++j) {
      base[j / columns[i] * row_stride + begin[i] + j % columns[i]] = to_bf16(sources[i]->get(j));
    }
  }
  KdaDecodeArgs args = c.args();
  args.x = view(base, {4, 3 * p}, {row_stride, 1});
  args.raw_gate = view(base + begin[1], {4, 3, kDim}, {row_stride, kDim, 1});
  args.raw_beta = view(base + begin[2], {4, 3}, {row_stride, 1});
  args.output_gate = view(base + begin[3], {4, 3, kDim}, {row_stride, kDim, 1});
  args.output = view(base + begin[4], {4, 3, kDim}, {row_stride, kDim, 1});
  for (ConstTensorView* view : {&args.x, &args.raw_gate, &args.raw_beta, &args.output_gate})
    view->device = here().device;
  args.output.device = here().device;
  const std::vector<bf16> before = fused;
  const Status status = kda_decode(args, launch());
  if (status.code() == StatusCode::unsupported) return;
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_TRUE(c.download().ok());
  for (int64_t j = 0; j < 4 * p; ++j) c.output.set(j, to_float(base[j / p * row_stride + begin[4] + j % p]));
  const Verdict verdict = c.verify();
  EXPECT_TRUE(verdict.ok) << verdict.detail;
  for (int64_t j = 0; j < 4 * row_stride; ++j) {
    const bool output = j % row_stride >= begin[4] && j % row_stride < begin[4] + p;
    ASSERT_TRUE(output || base[j] == before[static_cast<size_t>(j)]) << j;
  }
  args.output.data = base + begin[3];
  EXPECT_EQ(kda_decode(args, launch()).message(),
            "kda_decode: output: has memory of output_gate, needs memory of its own");
}

// 10: history and state of a slot share a page
TEST_P(Contract, OnePagePerSlot) {
  if (!in_host_memory(here().device)) return;
  for (const kda::History layout : {kda::History::sd, kda::History::ds}) {
    KdaDecodeProblem problem = problem_of("kda_decode b=3 h=2");
    problem.layout = layout;
    KdaDecodeCase c(problem, 7);
    ASSERT_TRUE(c.upload(here().device).ok());
    const int64_t conv_bytes = c.problem.conv_slot_stride * 2;
    const int64_t state_bytes = c.problem.state_slot_stride * 4;
    const int64_t page = (conv_bytes + state_bytes + 255) / 256 * 256;
    Buffer pool(static_cast<size_t>(4 * page));
    KdaDecodeArgs args = c.args();
    args.conv_state.data = pool.data();
    args.conv_state.stride[0] = page / 2;
    args.state.data = pool.data() + conv_bytes;
    args.state.stride[0] = page / 4;
    const auto copy = [&](bool in) {
      for (int64_t slot = 0; slot < 4; ++slot) {
        std::byte* conv = pool.data() + slot * page;
        std::byte* here_conv = c.conv_state.host<std::byte>() + slot * conv_bytes;
        std::byte* here_state = c.state.host<std::byte>() + slot * state_bytes;
        std::copy_n(in ? here_conv : conv, conv_bytes, in ? conv : here_conv);
        std::copy_n(in ? here_state : conv + conv_bytes, state_bytes, in ? conv + conv_bytes : here_state);
      }
    };
    copy(true);
    const Status status = kda_decode(args, launch());
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(c.download().ok());
    copy(false);
    const Verdict verdict = c.verify();
    EXPECT_TRUE(verdict.ok) << verdict.detail;
    args.state.data = pool.data() + conv_bytes - 4;
    EXPECT_EQ(kda_decode(args, launch()).message(),
              "kda_decode: state: has memory of conv_state, needs memory of its own");
  }
}

// 15
TEST_P(Contract, ZeroVectors) {
  for (const int64_t zero_part : {0, 1, -1}) {  // q, k, everything
    KdaDecodeCase c(problem_of("kda_decode b=2 h=2"), 8);
    const int64_t p = c.problem.p();
    const auto zero = [&](int64_t channel) { return zero_part < 0 || channel / p == zero_part; };
    for (int64_t i = 0; i < c.x.elements(); ++i) {
      if (zero(i % (3 * p))) c.x.set(i, 0);
    }
    for (int64_t i = 0; i < c.conv_state.elements(); ++i) {
      if (zero(i / 3 % (3 * p))) c.conv_state.set(i, 0);
    }
    expect_right(c);
    EXPECT_TRUE(finite(c.output, 0, c.output.elements()));
    if (zero_part != 1) {
      EXPECT_EQ(c.output.get(7), 0.0F);
    }
  }
}

// 16, 17: extremes of gate and beta in both gates
TEST_P(Contract, GateAndBetaExtremes) {
  for (const char* line : {"kda_decode b=6 h=2", "kda_decode b=6 h=2 gate=softplus"}) {
    KdaDecodeCase c(problem_of(line), 9);
    const float gates[] = {30, -30, -kInf, kInf, 25, 19};
    const float betas[] = {40, -40, 40, -40, 88, -100};
    for (int64_t row = 0; row < 6; ++row) {
      for (int64_t i = 0; i < 2 * kDim; ++i) c.raw_gate.set(row * 2 * kDim + i, gates[row]);
      for (int64_t head = 0; head < 2; ++head) c.raw_beta.set(row * 2 + head, betas[row]);
    }
    c.A_log.set(0, 6.0F);
    c.A_log.set(1, -3.0F);
    expect_right(c);
    EXPECT_TRUE(finite(c.output, 0, c.output.elements()));
    // raw_gate -inf keeps the state and beta 1 still corrects it; softplus with A_log 6 and 30 forgets everything.
    if (c.problem.gate == kda::Gate::softplus) {
      const int64_t slot = c.state_indices.get_int(1);
      const KdaDecodeArgs before = c.host_args_before();
      const auto* was = static_cast<const float*>(kda_decode_state(c.problem, before, slot, 1));
      EXPECT_NE(was[0], 0.0F);
      const int64_t forgot = c.state_indices.get_int(3);
      for (int64_t i = 0; i < kDim; ++i) EXPECT_LT(std::abs(c.state.get(forgot * 2 * kDim * kDim + i)), 1e-15F);
    }
  }
}

// 19: sums of squares beyond the fp32 range: contract.md says what comes out
TEST_P(Contract, SumsOverflow) {
  KdaDecodeCase c(problem_of("kda_decode b=2 h=2"), 10);
  const int64_t p = c.problem.p();
  for (int64_t i = 0; i < p; ++i) c.x.set(i, (i % 2 == 0 ? 1 : -1) * 1e30F);                  // q of row 0
  for (int64_t i = 0; i < p; ++i) c.x.set(3 * p + 2 * p + i, (i % 2 == 0 ? 1 : -1) * 1e30F);  // v of row 1
  expect_right(c);
  EXPECT_TRUE(finite(c.output, 0, c.output.elements()));
  // So large that the sums with the state leave the range as well.
  KdaDecodeCase huge(problem_of("kda_decode b=3 h=2"), 13);
  for (int64_t i = 0; i < p; ++i) {
    huge.x.set(i, 3e38F);              // q of row 0
    huge.x.set(3 * p + p + i, 3e38F);  // k of row 1
    huge.x.set(6 * p + i, 3e38F);      // both of row 2
    huge.x.set(6 * p + p + i, 3e38F);
  }
  expect_right(huge);
  EXPECT_TRUE(finite(huge.output, 0, huge.output.elements()));
}

// 21, 36e: a NaN reaches its row (and head) and nothing else
TEST_P(Contract, ANaNStaysInItsRow) {
  struct Plant {
    const char* name;
    void (*plant)(KdaDecodeCase&);
    bool whole_head;
  };
  const Plant plants[] = {
      {"q", [](KdaDecodeCase& c) { c.x.set(2 * 1152 + 130, kNaN); }, true},
      {"k", [](KdaDecodeCase& c) { c.x.set(2 * 1152 + 384 + 130, kNaN); }, true},
      {"v", [](KdaDecodeCase& c) { c.x.set(2 * 1152 + 768 + 130, kNaN); }, true},
      {"raw_gate", [](KdaDecodeCase& c) { c.raw_gate.set(2 * 384 + 130, kNaN); }, true},
      {"raw_beta", [](KdaDecodeCase& c) { c.raw_beta.set(2 * 3 + 1, kNaN); }, true},
      {"output_gate", [](KdaDecodeCase& c) { c.output_gate.set(2 * 384 + 130, kNaN); }, false},
      {"history", [](KdaDecodeCase& c) { c.conv_state.set((c.state_indices.get_int(2) * 1152 + 130) * 3 + 1, kNaN); },
       true},
      {"state",
       [](KdaDecodeCase& c) { c.state.set((c.state_indices.get_int(2) * 3 + 1) * kDim * kDim + 2 * kDim + 9, kNaN); },
       true},
  };
  for (const char* line : {"kda_decode b=4 h=3", "kda_decode b=4 h=3 gate=softplus"}) {
    for (const Plant& plant : plants) {
      KdaDecodeCase c(problem_of(line), 11);
      plant.plant(c);
      expect_right(c);
      EXPECT_TRUE(std::isnan(c.output.get(2 * 384 + 130))) << plant.name;
      for (int64_t i = 0; i < c.output.elements(); ++i) {
        const bool same_head = i / kDim == 2 * 3 + 1;
        const bool hit = plant.whole_head ? same_head : i == 2 * 384 + 130;
        ASSERT_EQ(std::isnan(c.output.get(i)), hit) << plant.name << " " << i;
      }
    }
  }
}

// 36d: denormal state and inputs
TEST_P(Contract, Denormals) {
  KdaDecodeCase c(problem_of("kda_decode b=2 h=2 dtype=f32"), 12);
  if (here().device.kind != DeviceKind::cpu) c = KdaDecodeCase(problem_of("kda_decode b=2 h=2"), 12);
  c.state.fill([&](int64_t i) { return (i % 2 == 0 ? 1e-40F : -3e-39F); });
  c.x.fill([&](int64_t i) { return (i % 3 == 0 ? 1e-39F : -2e-40F); });
  c.conv_state.fill([&](int64_t) { return 1e-40F; });
  expect_right(c);
}

// 36d: no slower than 1.5 times normal data; with IEEE handling it would be 35 times
TEST_P(Contract, DenormalsCostNothing) {
  if (here().device.kind != DeviceKind::cpu || here().kernel == "cpu_reference") return;
  KdaDecodeCase normal(problem_of("kda_decode b=2 h=3"), 14);
  normal.x.fill([](int64_t) { return 0.0F; });  // a zero k: nothing lifts the state again
  normal.conv_state.fill([](int64_t) { return 0.0F; });
  KdaDecodeCase denormal = normal;
  denormal.state.fill([](int64_t i) { return i % 2 == 0 ? 1e-40F : -3e-39F; });
  Launch alone = launch();
  alone.threads = 1;
  const double ratio =
      time_ratio([&] { ASSERT_TRUE(normal.upload(here().device).ok() && denormal.upload(here().device).ok()); },
                 [&] { ASSERT_TRUE(kda_decode(denormal.args(), alone).ok()); },
                 [&] { ASSERT_TRUE(kda_decode(normal.args(), alone).ok()); }, 1.5);
  RecordProperty("ratio", fmt::format("{:.2f}", ratio));
  EXPECT_LE(ratio, 1.5);
}

TEST_P(Contract, TheEpsilonIsUsed) {
  KdaDecodeCase c(problem_of("kda_decode b=2 h=2"), 13);
  c.norm_eps = 0.7F;
  expect_right(c);
  c.norm_eps = 0;
  expect_right(c);
}

// Inputs so small that the 1e-6 of the L2 norm decides: q and k are shorter than 1
TEST_P(Contract, ShortKeysStayShort) {
  KdaDecodeCase c(problem_of("kda_decode b=2 h=2 norm=0"), 24);
  for (int64_t i = 0; i < c.x.elements(); ++i) c.x.set(i, c.x.get(i) * 5e-4F);
  for (int64_t i = 0; i < c.conv_state.elements(); ++i) c.conv_state.set(i, c.conv_state.get(i) * 5e-4F);
  expect_right(c);
}

class Determinism : public EveryKernel {};

void expect_same(const KdaDecodeCase& a, const KdaDecodeCase& b) {
  const std::pair<const CaseTensor*, const CaseTensor*> tensors[] = {
      {&a.output, &b.output}, {&a.state, &b.state}, {&a.conv_state, &b.conv_state}};
  for (const auto& [left, right] : tensors) {
    const Verdict verdict = expect_bitwise("tensor", left->bytes(), right->bytes());
    ASSERT_TRUE(verdict.ok) << verdict.detail;
  }
}

// 26
TEST_P(Determinism, AHundredRunsAreTheSame) {
  KdaDecodeCase first(problem_of("kda_decode b=5 h=3 padded=1"), 18);
  ASSERT_TRUE(first.run(here().device, launch()).ok());
  for (int run = 0; run < 100; ++run) {
    KdaDecodeCase again(first.problem, 18);
    ASSERT_TRUE(again.run(here().device, launch()).ok());
    expect_same(again, first);
  }
}

// 25, 27: for every thread count, also with more threads than tasks; histories are shifted once
TEST_P(Determinism, ThreadsDoNotMatter) {
  for (const char* line : {"kda_decode b=7 h=3 padded=2 layout=ds", "kda_decode b=1 h=1", "kda_decode b=1 h=5",
                           "kda_decode b=3 h=5 state=bf16 layout=ds"}) {
    KdaDecodeCase first(problem_of(line), 19);
    ASSERT_TRUE(first.run(here().device, launch()).ok());
    for (const int threads : {1, 2, 3, 8, 64}) {
      KdaDecodeCase split(first.problem, 19);
      Launch with = launch();
      with.threads = threads;
      ASSERT_TRUE(split.run(here().device, with).ok());
      expect_same(split, first);
    }
  }
}

// 27: a row alone, in another slot and among other rows has the same bits
TEST_P(Determinism, ARowDependsOnItselfOnly) {
  for (const char* state : {"f32", "bf16"}) {
    const KdaDecodeProblem problem = problem_of(fmt::format("kda_decode b=11 h=3 slots=15 state={}", state));
    const int64_t p = problem.p();
    const KdaDecodeCase fresh(problem, 20);
    KdaDecodeCase many(problem, 20);
    ASSERT_TRUE(many.run(here().device, launch()).ok());
    for (const int64_t row : {0, 5, 10}) {
      KdaDecodeCase alone(problem_of(fmt::format("kda_decode b=1 h=3 slots=5 state={}", state)), 99);
      for (auto tensor :
           {&KdaDecodeCase::conv_weight, &KdaDecodeCase::A_log, &KdaDecodeCase::dt_bias, &KdaDecodeCase::norm_weight}) {
        alone.*tensor = fresh.*tensor;
      }
      const int64_t slot = fresh.state_indices.get_int(row);
      const int64_t own = alone.state_indices.get_int(0);
      copy(fresh.x, row * 3 * p, alone.x, 0, 3 * p);
      copy(fresh.raw_gate, row * p, alone.raw_gate, 0, p);
      copy(fresh.raw_beta, row * 3, alone.raw_beta, 0, 3);
      copy(fresh.output_gate, row * p, alone.output_gate, 0, p);
      copy(fresh.state, slot * p * kDim, alone.state, own * p * kDim, p * kDim);
      copy(fresh.conv_state, slot * 9 * p, alone.conv_state, own * 9 * p, 9 * p);
      ASSERT_TRUE(alone.run(here().device, launch()).ok());
      for (int64_t i = 0; i < p; ++i) ASSERT_EQ(alone.output.get(i), many.output.get(row * p + i)) << row << " " << i;
      for (int64_t i = 0; i < p * kDim; ++i) {
        ASSERT_EQ(alone.state.get(own * p * kDim + i), many.state.get(slot * p * kDim + i)) << row << " " << i;
      }
    }
  }
}

// 28
TEST_P(Determinism, TwoCallersAtOnce) {
  std::vector<std::thread> callers;
  for (uint64_t caller = 0; caller < 2; ++caller) {
    callers.emplace_back([this, caller] {
      for (int run = 0; run < 10; ++run) {
        KdaDecodeCase c(
            problem_of(caller == 0 ? "kda_decode b=9 h=3" : "kda_decode b=5 h=2 state=bf16 gate=softplus layout=ds"),
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

INSTANTIATE_TEST_SUITE_P(KdaDecode, Contract, testing::ValuesIn(kernels_here("kda_decode")), kernel_name);
INSTANTIATE_TEST_SUITE_P(KdaDecode, Determinism, testing::ValuesIn(kernels_here("kda_decode")), kernel_name);

}  // namespace
}  // namespace silt
