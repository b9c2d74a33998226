// The KDA operators against each other: the fused step is the chain of three, prefill and decode continue each other.
// The comments name the row of docs/cases.md.
#include <gtest/gtest.h>

#include <cmath>

#include "silt/causal_conv1d_update.hpp"
#include "silt/kda_recurrence.hpp"
#include "silt/rms_norm_gated.hpp"

#include "kda/decode/cases.hpp"
#include "kda/decode/reference.hpp"
#include "kda/decode/rows.hpp"
#include "kda/prefill/cases.hpp"
#include "kda/shared/case_pool.hpp"

namespace silt {
namespace {

constexpr int64_t kDim = kda::kDim;
constexpr double kHalfUlp = 0x1p-9;  // the largest relative error of rounding to bf16

template <class Problem>
Problem problem_of(const std::string& text) {
  ProblemLine line;
  Problem problem;
  Status status = parse_line(text, &line);
  if (status.ok()) status = Problem::parse(line, &problem);
  EXPECT_TRUE(status.ok()) << status.message();
  return problem;
}

/// The decode step of a case (uploaded) as three operators, with `between` as the type of what passes between them.
void run_chain(const KdaDecodeCase& c, DType between, const Launch& launch) {
  const KdaDecodeProblem& p = c.problem;
  const KdaDecodeArgs fused = c.args();
  const int64_t channels = 3 * p.p();
  CaseTensor activated(between, {p.b, 1, channels});
  CaseTensor o(between, {p.b, p.h, kDim});
  ASSERT_TRUE(activated.to_device(fused.x.device).ok());
  ASSERT_TRUE(o.to_device(fused.x.device).ok());

  CausalConv1dUpdateArgs conv;
  conv.x = fused.x;
  conv.x.rank = 3;
  conv.x.shape = {p.b, 1, channels};
  conv.x.stride = {p.x_stride, channels, 1};
  conv.weight = fused.conv_weight;
  conv.bias = fused.conv_bias;
  conv.conv_state = fused.conv_state;
  conv.state_indices = fused.state_indices;
  conv.output = activated.view();
  conv.null_slot = fused.null_slot;
  Status status = causal_conv1d_update(conv, launch);
  ASSERT_TRUE(status.ok()) << status.message();

  KdaRecurrenceArgs rule;
  const auto part = [&](int64_t index) {
    ConstTensorView slice = activated.view();
    slice.data = static_cast<const std::byte*>(slice.data) + index * p.p() * static_cast<int64_t>(size_of(between));
    slice.shape = {p.b, p.h, kDim};
    slice.stride = {channels, kDim, 1};
    return slice;
  };
  rule.q = part(0);
  rule.k = part(1);
  rule.v = part(2);
  rule.raw_gate = fused.raw_gate;
  rule.raw_beta = fused.raw_beta;
  rule.A_log = fused.A_log;
  rule.dt_bias = fused.dt_bias;
  rule.state_indices = fused.state_indices;
  rule.state = fused.state;
  rule.safe_gate = fused.safe_gate;
  rule.lower_bound = fused.lower_bound;
  rule.output = p.norm ? o.view() : fused.output;
  rule.null_slot = fused.null_slot;
  status = kda_recurrence(rule, launch);
  ASSERT_TRUE(status.ok()) << status.message();
  if (!p.norm) return;

  RmsNormGatedArgs norm;
  norm.x = o.view();
  norm.gate = fused.output_gate;
  norm.weight = fused.norm_weight;
  norm.eps = fused.norm_eps;
  norm.output = fused.output;
  // The recurrence leaves zeros in padding rows, but their gates may hold anything: the rows that count are the live
  // ones, as an engine would have them.
  status = rms_norm_gated(norm, launch);
  ASSERT_TRUE(status.ok()) << status.message();
}

class Chain : public testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] static Launch launch() {
    Launch launch;
    launch.policy = Policy::require(GetParam());
    return launch;
  }
};

const char* const kLines[] = {
    "kda_decode b=5 h=3",
    "kda_decode b=5 h=3 dtype=f32",
    "kda_decode b=5 h=3 norm=0 bias=1 layout=ds padded=1",
    "kda_decode b=4 h=2 gate=softplus bias=1",
    "kda_decode b=4 h=2 gate=softplus dtype=f32 norm=0 layout=ds",
    "kda_decode b=4 h=2 state=bf16 x_stride=1000 gate_stride=1000 output_stride=264",
};

// 32: with fp32 between the steps the chain keeps the bound of the fused step
TEST_P(Chain, OfFloatsIsTheFusedStep) {
  for (const char* line : kLines) {
    KdaDecodeCase c(problem_of<KdaDecodeProblem>(line), 1);
    ASSERT_TRUE(c.upload({}).ok());
    run_chain(c, DType::f32, launch());
    ASSERT_FALSE(HasFatalFailure()) << line;
    ASSERT_TRUE(c.download().ok());
    const Verdict verdict = c.verify();
    EXPECT_TRUE(verdict.ok) << line << ": " << verdict.detail;
  }
}

/// One head of the chain with bf16 between its steps against the exact fused step: two ulps, plus what rounding q, k, v
/// and o to bf16 moves (half an ulp of each, carried through by the bounds of the contract).
template <class Act>
Verdict verify_halves(const KdaDecodeProblem& p, const KdaDecodeArgs& before, const KdaDecodeArgs& after, int64_t row,
                      int64_t head) {
  const int64_t slot = kda_decode_index(before, row);
  KdaDecodeResult<double, Act> exact;
  kda_decode_reference(p, before, row, head, slot, &exact);
  std::vector<double> state;
  kda::load_state(kda_decode_state(p, before, slot, head), p.state, &state);
  const kda::HeadWeights w = kda_decode_weights(p, before, head);
  kda::InputErrors inputs = kda::conv_errors(exact.token);
  for (size_t part = 0; part < inputs.size(); ++part) {
    for (size_t i = 0; i < inputs[part].size(); ++i) inputs[part][i] += kHalfUlp * std::abs(exact.token.z[part][i]);
  }
  kda::HeadBound bound;
  kda::HeadVector<double> slack =
      bound.step({w.gate, w.lower_bound, w.A_log, w.dt_bias}, inputs, state.data(), exact.token);
  for (size_t i = 0; i < slack.size(); ++i) slack[i] += kHalfUlp * std::abs(exact.token.o[i]);
  if (p.norm) {
    slack = kda::norm_error(exact.token.o, slack, exact.token.output, exact.token.output_gate, w.norm_weight,
                            w.norm_eps, GateActivation::sigmoid);
  }
  const Act* output = kda_decode_output<Act>(p, after, row, head);
  const auto got = [&](int64_t i) { return static_cast<double>(to_float(output[i])); };
  const auto want = [&](int64_t i) { return exact.token.output[static_cast<size_t>(i)]; };
  Verdict verdict = expect_output(
      fmt::format("row {} head {}", row, head), DType::bf16, kDim, got, want,
      [&](int64_t i) { return slack[static_cast<size_t>(i)]; }, 2);
  // As a whole the head is within two ulps: roundings of single elements do not line up.
  verdict.merge(expect_rows_within(fmt::format("row {} head {}", row, head), 1, kDim, got, want, 4 * kHalfUlp));
  verdict.merge(kda::expect_window("history", kda_decode_history<Act>(p, after, slot, head), exact.window));
  return verdict;
}

// 32: with bf16 between the steps it is within two bf16 ulps of it
TEST_P(Chain, OfHalvesIsWithinTwoUlps) {
  for (const char* line : kLines) {
    const auto problem = problem_of<KdaDecodeProblem>(line);
    if (problem.dtype != DType::bf16) continue;
    KdaDecodeCase c(problem, 2);
    ASSERT_TRUE(c.upload({}).ok());
    run_chain(c, DType::bf16, launch());
    ASSERT_FALSE(HasFatalFailure()) << line;
    ASSERT_TRUE(c.download().ok());
    const KdaDecodeArgs before = c.host_args_before();
    KdaDecodeArgs after = before;
    after.conv_state = c.conv_state.host_view();
    for (int64_t row = 0; row < problem.b; ++row) {
      if (kda::is_padding(c.state_indices.get_int(row), problem.null_slot, problem.slots)) continue;
      for (int64_t head = 0; head < problem.h; ++head) {
        const Verdict verdict = verify_halves<bf16>(problem, before, after, row, head);
        EXPECT_TRUE(verdict.ok) << line << ": " << verdict.detail;
      }
    }
  }
}

/// Copies `count` logical elements.
void copy(const CaseTensor& from, int64_t from_index, CaseTensor& to, int64_t to_index, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to.set(to_index + i, from.get(from_index + i));
}

// 30: prefill of 9 tokens, then 5 decode steps, is prefill of 14: the same bits, for these two kernels share their
// steps
TEST_P(Chain, PrefillThenDecodeIsPrefillOfTheWhole) {
  for (const char* options : {"", " gate=softplus layout=ds bias=1", " dtype=f32 norm=0"}) {
    KdaPrefillCase whole(problem_of<KdaPrefillProblem>(fmt::format("kda_prefill seqs=1x14 h=2{}", options)), 3);
    KdaPrefillCase first(problem_of<KdaPrefillProblem>(fmt::format("kda_prefill seqs=1x9 h=2{}", options)), 4);
    KdaDecodeCase step(problem_of<KdaDecodeProblem>(fmt::format("kda_decode b=1 h=2{}", options)), 5);
    const int64_t p = 2 * kDim;
    const auto take = [&](auto& into, int64_t begin, int64_t count) {
      copy(whole.x, begin * 3 * p, into.x, 0, count * 3 * p);
      copy(whole.raw_gate, begin * p, into.raw_gate, 0, count * p);
      copy(whole.raw_beta, begin * 2, into.raw_beta, 0, count * 2);
      if (whole.problem.norm) copy(whole.output_gate, begin * p, into.output_gate, 0, count * p);
      into.conv_weight = whole.conv_weight;
      into.conv_bias = whole.conv_bias;
      into.A_log = whole.A_log;
      into.dt_bias = whole.dt_bias;
      into.norm_weight = whole.norm_weight;
      into.state_indices = whole.state_indices;
    };
    take(first, 0, 9);
    first.state = whole.state;
    first.conv_state = whole.conv_state;
    ASSERT_TRUE(whole.run({}, launch()).ok());
    ASSERT_TRUE(first.run({}, launch()).ok());
    for (int64_t i = 0; i < 9 * p; ++i) ASSERT_EQ(first.output.get(i), whole.output.get(i)) << options << " " << i;
    step.state = first.state;
    step.conv_state = first.conv_state;
    for (int64_t t = 9; t < 14; ++t) {
      take(step, t, 1);
      ASSERT_TRUE(step.run({}, launch()).ok());
      for (int64_t i = 0; i < p; ++i) ASSERT_EQ(step.output.get(i), whole.output.get(t * p + i)) << options << " " << t;
    }
    EXPECT_TRUE(expect_bitwise("state", step.state.bytes(), whole.state.bytes()).ok) << options;
    EXPECT_TRUE(expect_bitwise("history", step.conv_state.bytes(), whole.conv_state.bytes()).ok) << options;
  }
}

INSTANTIATE_TEST_SUITE_P(Kda, Chain, testing::Values("cpu_plain_rows", "cpu_reference"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace silt
