// The decode step as the chain of three operators, for the tests that compare it with the fused one.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "silt/causal_conv1d_update.hpp"
#include "silt/kda_recurrence.hpp"
#include "silt/rms_norm_gated.hpp"

#include "kda/decode/cases.hpp"
#include "kda/decode/reference.hpp"
#include "kda/decode/rows.hpp"
#include "kda/shared/case_pool.hpp"
#include "proof/room_test.hpp"

namespace silt::kda_chain {

constexpr int64_t kDim = kda::kDim;
constexpr double kHalfUlp = 0x1p-9;  // the largest relative error of rounding to bf16

/// Kernels by name: of causal_conv1d_update, kda_recurrence and rms_norm_gated.
struct Kernels {
  const char* conv;
  const char* rule;
  const char* norm;
};

/// The decode step of a case (uploaded) as three operators, with `between` as the type of what passes between them.
inline void run_chain(const KdaDecodeCase& c, DType between, const Kernels& kernels) {
  const auto with = [](const char* kernel) { return Launch{.policy = Policy::require(kernel)}; };
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
  Status status = causal_conv1d_update(conv, with(kernels.conv));
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
  status = kda_recurrence(rule, with(kernels.rule));
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
  status = rms_norm_gated(norm, with(kernels.norm));
  ASSERT_TRUE(status.ok()) << status.message();
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

/// Every live head of a case that has run as a chain with bf16 between its steps.
inline Verdict verify_halves(KdaDecodeCase& c) {
  const KdaDecodeProblem& p = c.problem;
  const KdaDecodeArgs before = c.host_args_before();
  KdaDecodeArgs after = before;
  after.conv_state = c.conv_state.host_view();
  Verdict verdict;
  for (int64_t row = 0; row < p.b; ++row) {
    if (kda::is_padding(c.state_indices.get_int(row), p.null_slot, p.slots)) continue;
    for (int64_t head = 0; head < p.h; ++head) verdict.merge(verify_halves<bf16>(p, before, after, row, head));
  }
  return verdict;
}

}  // namespace silt::kda_chain
