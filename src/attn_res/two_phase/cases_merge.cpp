#include <algorithm>
#include <cmath>

#include "attn_res/bounds.hpp"
#include "attn_res/two_phase/cases.hpp"
#include "attn_res/two_phase/fill.hpp"
#include "attn_res/two_phase/list.hpp"
#include "attn_res/two_phase/rows.hpp"
#include "core/status.hpp"
#include "proof/operator_of.hpp"

namespace silt {

using attn_res_fill::kActivationRange;

AttnResMergeCase::AttnResMergeCase(const AttnResMergeProblem& p, uint64_t seed) : problem(p) {
  const auto rows = [&](DType dtype, int64_t stride) {
    return CaseTensor(dtype, {p.t, p.d}, {stride, 1}, attn_res_fill::shift(dtype, p.align));
  };
  prefix = rows(p.dtype, p.prefix_stride);
  if (p.delta) delta = rows(p.dtype, p.delta_stride);
  statistics = CaseTensor(DType::f32, {p.t, 2}, {p.statistics_stride, 1});
  mix = rows(p.partial, p.mix_stride);
  if (p.write) slot = rows(p.dtype, p.slot_stride);
  norm_weight = CaseTensor(DType::bf16, {p.d});
  qk_weight = CaseTensor(DType::bf16, {p.d});
  if (p.norm) output_norm_weight = CaseTensor(DType::bf16, {p.d});
  output = rows(p.dtype, p.output_stride);

  Random random(seed);
  attn_res_fill::uniform(prefix, random, -kActivationRange, kActivationRange);
  attn_res_fill::uniform(delta, random, -kActivationRange, kActivationRange);
  // What a sweep over a few blocks leaves: a logit of usual size, a denominator between 1 and the number of blocks, and
  // a sum that is as much larger than an activation.
  for (int64_t t = 0; t < p.t; ++t) {
    const float denominator = random.uniform(1, 8);
    statistics.set(2 * t, random.uniform(-2, 2));
    statistics.set(2 * t + 1, denominator);
    for (int64_t c = 0; c < p.d; ++c) mix.set(t * p.d + c, denominator * random.uniform(-1, 1));
  }
  attn_res_fill::weights(norm_weight, qk_weight, p.d, random);
  attn_res_fill::uniform(output_norm_weight, random, 0.3F, 1.7F);
}

std::vector<NamedTensor> AttnResMergeCase::tensors() {
  return {{"prefix", &prefix, true},   {"delta", &delta},
          {"statistics", &statistics}, {"mix", &mix},
          {"slot", &slot, true},       {"norm_weight", &norm_weight},
          {"qk_weight", &qk_weight},   {"output_norm_weight", &output_norm_weight},
          {"output", &output, true}};
}

Status AttnResMergeCase::upload(Device device) {
  slot.poison();
  output.poison();
  for (const NamedTensor& named : tensors()) SILT_TRY(named.tensor->to_device(device));
  prefix_before_ = prefix;
  statistics_before_ = statistics;
  mix_before_ = mix;
  slot_before_ = slot.bytes();
  output_before_ = output.bytes();
  return {};
}

AttnResMergeArgs AttnResMergeCase::args() const {
  AttnResMergeArgs args;
  args.prefix = prefix.view();
  args.delta = delta.view();
  args.statistics = statistics.view();
  args.mix = mix.view();
  args.slot = slot.view();
  args.norm_weight = norm_weight.view();
  args.qk_weight = qk_weight.view();
  args.output_norm_weight = output_norm_weight.view();
  args.eps = eps;
  args.output_norm_eps = output_norm_eps;
  args.output = output.view();
  args.stable_partials = problem.stable;
  return args;
}

Status AttnResMergeCase::download() {
  for (CaseTensor* tensor : {&prefix, &statistics, &mix, &slot, &output}) SILT_TRY(tensor->from_device());
  return {};
}

Status AttnResMergeCase::run(Device device, const Launch& launch) {
  SILT_TRY(upload(device));
  SILT_TRY(attn_res_merge(args(), launch));
  SILT_TRY(synchronize(device, launch.stream));
  return download();
}

namespace {

/// Compares one token; `slack` follows contract.md, tolerance.
template <class Act>
Verdict verify_token(const AttnResMergeCase& c, int64_t t, const AttnResMergeRow<Act>& row) {
  const AttnResMergeProblem& p = c.problem;
  AttnResMergeResult<double, Act> exact;
  attn_res_merge_reference(row, &exact);
  const auto index = [](int64_t i) { return static_cast<size_t>(i); };

  const double moved = attn_res_moved(sum_error(p.d) * exact.logit_spread);
  std::vector<double> mix_error;
  for (int64_t i = 0; i < p.d; ++i) {
    const double bank = std::abs(static_cast<double>(row.mix[index(i)]) / row.denominator);
    mix_error.push_back(moved * std::max<double>(bank, std::abs(to_float(exact.prefix[index(i)]))));
  }
  const std::vector<double> slack =
      attn_res_output_slack({exact.mix, exact.output, exact.scale, row.output_norm_weight}, mix_error);
  Verdict verdict = expect_output(
      fmt::format("output row {}", t), p.dtype, p.d, [&](int64_t i) { return c.output.get(t * p.d + i); },
      [&](int64_t i) { return exact.output[index(i)]; }, [&](int64_t i) { return slack[index(i)]; }, 1);
  // p, bit for bit, in the prefix and in the slot.
  for (int64_t i = 0; i < p.d; ++i) {
    const float want = to_float(exact.prefix[index(i)]);
    const float in_slot = p.write ? c.slot.get(t * p.d + i) : want;
    if (attn_res_is_sum(c.prefix.get(t * p.d + i), want) && attn_res_is_sum(in_slot, want)) continue;
    verdict.fail(fmt::format("prefix[{}, {}]: has {}, slot has {}, needs {} exactly", t, i, c.prefix.get(t * p.d + i),
                             in_slot, want));
  }
  return verdict;
}

template <class Act>
Verdict verify_rows(const AttnResMergeCase& c, const AttnResMergeArgs& host) {
  Verdict verdict;
  for (int64_t t = 0; t < c.problem.t; ++t) {
    verdict.merge(verify_token<Act>(c, t, attn_res_merge_row<Act>(c.problem, host, t)));
  }
  return verdict;
}

}  // namespace

Verdict AttnResMergeCase::verify_untouched() const {
  Verdict verdict;
  verdict.merge(prefix.outside_untouched("prefix", prefix_before_.bytes()));
  verdict.merge(slot.outside_untouched("slot", slot_before_));
  verdict.merge(output.outside_untouched("output", output_before_));
  verdict.merge(expect_bitwise("statistics", statistics.bytes(), statistics_before_.bytes()));
  verdict.merge(expect_bitwise("mix", mix.bytes(), mix_before_.bytes()));
  if (!problem.delta) {
    verdict.merge(prefix.range_untouched("prefix", prefix_before_, 0, problem.t * problem.d));
  }
  return verdict;
}

Verdict AttnResMergeCase::verify() const {
  AttnResMergeCase before = *this;  // the same inputs in host memory, as they were before the run
  before.prefix = prefix_before_;
  before.statistics = statistics_before_;
  before.mix = mix_before_;
  AttnResMergeArgs host;
  host.prefix = before.prefix.host_view();
  host.delta = before.delta.host_view();
  host.statistics = before.statistics.host_view();
  host.mix = before.mix.host_view();
  host.norm_weight = before.norm_weight.host_view();
  host.qk_weight = before.qk_weight.host_view();
  host.output_norm_weight = before.output_norm_weight.host_view();
  host.eps = eps;
  host.output_norm_eps = output_norm_eps;
  Verdict verdict = problem.dtype == DType::bf16 ? verify_rows<bf16>(*this, host) : verify_rows<float>(*this, host);
  verdict.merge(verify_untouched());
  return verdict;
}

std::vector<std::string> attn_res_merge_check_lines() {
  return {
      // Calls of the decoder: inside a depth block, at its end with a slot written, the final one without a norm.
      "attn_res_merge t=5 d=7168",
      "attn_res_merge t=5 d=7168 partial=f32",
      "attn_res_merge t=5 d=7168 write=1",
      "attn_res_merge t=5 d=7168 norm=0",
      "attn_res_merge t=3 d=7168 delta=0",
      "attn_res_merge t=3 d=7168 delta=0 norm=0 write=1 partial=f32",
      // Hidden sizes: of models, and around vector and tile widths.
      "attn_res_merge t=4 d=256",
      "attn_res_merge t=4 d=1024 write=1",
      "attn_res_merge t=4 d=2304 partial=f32",
      "attn_res_merge t=2 d=8192 write=1",
      "attn_res_merge t=3 d=4104",
      "attn_res_merge t=3 d=1",
      "attn_res_merge t=3 d=17 write=1",
      "attn_res_merge t=3 d=31 partial=f32",
      "attn_res_merge t=3 d=257 norm=0",
      // Many tokens (processors of a GPU, odd counts), one token.
      "attn_res_merge t=1 d=7168",
      "attn_res_merge t=132 d=512",
      "attn_res_merge t=133 d=512 write=1",
      "attn_res_merge t=1031 d=256",
      // Strides: padded rows, odd padding, a bank's slot, statistics and mix of a token-major partial; addresses
      // aligned
      // to 2, 4 and 8 bytes.
      "attn_res_merge t=6 d=256 write=1 prefix_stride=512 delta_stride=768 slot_stride=2304 output_stride=264",
      "attn_res_merge t=6 d=256 write=1 prefix_stride=263 delta_stride=257 mix_stride=259 slot_stride=271 "
      "output_stride=273 align=2",
      "attn_res_merge t=6 d=512 mix_stride=4096 statistics_stride=16",
      "attn_res_merge t=6 d=512 statistics_stride=3 mix_stride=520 partial=f32",
      "attn_res_merge t=6 d=256 align=4 write=1",
      "attn_res_merge t=6 d=1024 align=8",
      "attn_res_merge t=6 d=256 align=2 partial=f32",
      // Exact mode.
      "attn_res_merge t=4 d=7168 dtype=f32",
      "attn_res_merge t=5 d=257 write=1 dtype=f32",
      "attn_res_merge t=4 d=1024 norm=0 delta=0 dtype=f32",
  };
}

Operator attn_res_merge_operator() {
  return operator_of<AttnResMergeCase, attn_res_merge_list, attn_res_merge_check_lines>();
}

}  // namespace silt
