#include <cmath>

#include "attn_res/two_phase/cases.hpp"
#include "attn_res/two_phase/fill.hpp"
#include "attn_res/two_phase/list.hpp"
#include "attn_res/two_phase/rows.hpp"
#include "core/status.hpp"
#include "proof/operator_of.hpp"

namespace silt {

using attn_res_fill::kActivationRange;

AttnResPartialsCase::AttnResPartialsCase(const AttnResPartialsProblem& p, uint64_t seed) : problem(p) {
  blocks = CaseTensor(p.dtype, {p.t, p.slots, p.d}, {p.block_token_stride, p.block_slot_stride, 1},
                      attn_res_fill::shift(p.dtype, p.align));
  norm_weight = CaseTensor(DType::bf16, {p.q, p.d}, {p.norm_weight_stride, 1});
  qk_weight = CaseTensor(DType::bf16, {p.q, p.d}, {p.qk_weight_stride, 1});
  statistics = CaseTensor(DType::f32, {p.q, p.t, 2}, {p.statistics_query_stride, p.statistics_token_stride, 1});
  mix = CaseTensor(p.partial, {p.q, p.t, p.d}, {p.mix_query_stride, p.mix_token_stride, 1},
                   attn_res_fill::shift(p.partial, p.align));

  Random random(seed);
  // Valid slots only: the others keep their poison (NaN), which must never reach an output.
  for (int64_t i = 0; i < p.t * p.slots * p.d; ++i) {
    if (i / p.d % p.slots < p.n) blocks.set(i, random.uniform(-kActivationRange, kActivationRange));
  }
  attn_res_fill::weights(norm_weight, qk_weight, p.d, random);
}

std::vector<NamedTensor> AttnResPartialsCase::tensors() {
  return {{"blocks", &blocks},
          {"norm_weight", &norm_weight},
          {"qk_weight", &qk_weight},
          {"statistics", &statistics, true},
          {"mix", &mix, true}};
}

Status AttnResPartialsCase::upload(Device device) {
  statistics.poison();
  mix.poison();
  for (const NamedTensor& named : tensors()) SILT_TRY(named.tensor->to_device(device));
  blocks_before_ = blocks;
  statistics_before_ = statistics.bytes();
  mix_before_ = mix.bytes();
  return {};
}

AttnResPartialsArgs AttnResPartialsCase::args() const {
  AttnResPartialsArgs args;
  args.blocks = blocks.view();
  args.norm_weight = norm_weight.view();
  args.qk_weight = qk_weight.view();
  args.num_blocks = problem.n;
  args.eps = eps;
  args.statistics = statistics.view();
  args.mix = mix.view();
  args.stable_blocks = problem.stable;
  return args;
}

Status AttnResPartialsCase::download() {
  for (CaseTensor* tensor : {&blocks, &statistics, &mix}) SILT_TRY(tensor->from_device());
  return {};
}

Status AttnResPartialsCase::run(Device device, const Launch& launch) {
  SILT_TRY(upload(device));
  SILT_TRY(attn_res_partials(args(), launch));
  SILT_TRY(synchronize(device, launch.stream));
  return download();
}

namespace {

/// Compares one token of one query; the bounds are those of contract.md, tolerance.
template <class Act>
Verdict verify_row(const AttnResPartialsCase& c, int64_t t, int64_t q, const AttnResPartialsRow<Act>& row) {
  const AttnResPartialsProblem& p = c.problem;
  AttnResPartialsResult<double> exact;
  attn_res_partials_reference(row, &exact);
  const auto index = [](int64_t i) { return static_cast<size_t>(i); };
  const int64_t at = q * p.t + t;

  const double logit_error = sum_error(p.d) * exact.logit_spread;
  const double weight_error = std::expm1(2 * logit_error) + static_cast<double>(8 + p.n) * kFloatEpsilon;
  const auto finite = [](double bound) { return std::isfinite(bound) ? bound : 0.0; };
  Verdict verdict;
  if (!std::isnan(exact.denominator)) {  // else m may be NaN or not
    verdict.merge(expect_within(
        fmt::format("m of query {} row {}", q, t), 1, [&](int64_t) { return c.statistics.get(2 * at); },
        [&](int64_t) { return exact.largest; },
        [&](int64_t) { return finite(logit_error + kFloatEpsilon * std::abs(exact.largest) + kUnderflow); }));
  }
  verdict.merge(expect_within(
      fmt::format("s of query {} row {}", q, t), 1, [&](int64_t) { return c.statistics.get(2 * at + 1); },
      [&](int64_t) { return exact.denominator; }, [&](int64_t) { return finite(weight_error * exact.denominator); }));
  const double mix_error = weight_error + (p.dtype == DType::bf16 ? kAttnResPartialsWeightError : 0.0);
  verdict.merge(expect_output(
      fmt::format("mix of query {} row {}", q, t), p.partial, p.d, [&](int64_t i) { return c.mix.get(at * p.d + i); },
      [&](int64_t i) { return exact.mix[index(i)]; },
      [&](int64_t i) { return finite(mix_error * exact.magnitude[index(i)]); }, 1));
  return verdict;
}

template <class Act>
Verdict verify_rows(const AttnResPartialsCase& c, const AttnResPartialsArgs& host) {
  Verdict verdict;
  for (int64_t q = 0; q < c.problem.q; ++q) {
    for (int64_t t = 0; t < c.problem.t; ++t) {
      verdict.merge(verify_row<Act>(c, t, q, attn_res_partials_row<Act>(c.problem, host, t, q)));
    }
  }
  return verdict;
}

}  // namespace

Verdict AttnResPartialsCase::verify() const {
  AttnResPartialsCase before = *this;  // the same inputs in host memory, as they were before the run
  before.blocks = blocks_before_;
  AttnResPartialsArgs host;
  host.blocks = before.blocks.host_view();
  host.norm_weight = before.norm_weight.host_view();
  host.qk_weight = before.qk_weight.host_view();
  host.eps = eps;
  Verdict verdict = problem.dtype == DType::bf16 ? verify_rows<bf16>(*this, host) : verify_rows<float>(*this, host);
  verdict.merge(expect_bitwise("blocks", blocks.bytes(), blocks_before_.bytes()));
  verdict.merge(statistics.outside_untouched("statistics", statistics_before_));
  verdict.merge(mix.outside_untouched("mix", mix_before_));
  return verdict;
}

std::vector<std::string> attn_res_partials_check_lines() {
  return {
      // A depth block's sweeps: eight queries, and the rest of 24 or of a model with other depth blocks.
      "attn_res_partials t=5 q=8 n=8 d=7168",
      "attn_res_partials t=5 q=8 n=8 d=7168 partial=f32",
      "attn_res_partials t=3 q=1 n=8 d=7168 r=9",
      "attn_res_partials t=4 q=4 n=4 d=7168 r=8",
      "attn_res_partials t=3 q=7 n=7 d=2304 partial=f32",
      "attn_res_partials t=3 q=3 n=1 d=4096 r=8",
      "attn_res_partials t=2 q=8 n=8 d=8192",
      // Hidden sizes around vector and tile widths.
      "attn_res_partials t=3 q=2 n=2 d=1",
      "attn_res_partials t=3 q=5 n=3 d=17",
      "attn_res_partials t=3 q=8 n=3 d=31 partial=f32",
      "attn_res_partials t=3 q=6 n=5 d=257",
      "attn_res_partials t=4 q=8 n=8 d=256",
      "attn_res_partials t=3 q=2 n=8 d=1024",
      "attn_res_partials t=3 q=8 n=6 d=4104",
      // Many tokens (processors of a GPU, odd counts), one token, more blocks than a model has.
      "attn_res_partials t=1 q=8 n=8 d=7168",
      "attn_res_partials t=132 q=8 n=8 d=256",
      "attn_res_partials t=133 q=3 n=8 d=512",
      "attn_res_partials t=1031 q=2 n=4 d=256",
      "attn_res_partials t=2 q=8 n=23 d=256 r=29",
      // Strides: a slot-major bank, holes between rows, interleaved weights, token-major outputs; addresses aligned to
      // 2,
      // 4 and 8 bytes.
      "attn_res_partials t=6 q=4 n=4 d=1024 r=5 bank_token_stride=1024 bank_slot_stride=6144",
      "attn_res_partials t=6 q=4 n=4 d=256 bank_token_stride=2048 bank_slot_stride=263 norm_stride=512 qk_stride=263 "
      "align=2",
      "attn_res_partials t=6 q=3 n=3 d=256 mix_query_stride=256 mix_token_stride=768 statistics_query_stride=2 "
      "statistics_token_stride=6",
      "attn_res_partials t=6 q=8 n=8 d=512 mix_token_stride=544 mix_query_stride=3264 statistics_token_stride=3 "
      "statistics_query_stride=19 partial=f32",
      "attn_res_partials t=6 q=4 n=3 d=256 align=4",
      "attn_res_partials t=6 q=4 n=3 d=1024 align=8",
      "attn_res_partials t=6 q=4 n=3 d=263 mix_token_stride=263 align=2 partial=f32",
      // Exact mode.
      "attn_res_partials t=4 q=8 n=8 d=7168 dtype=f32",
      "attn_res_partials t=5 q=3 n=3 d=257 dtype=f32",
  };
}

Operator attn_res_partials_operator() {
  return operator_of<AttnResPartialsCase, attn_res_partials_list, attn_res_partials_check_lines>();
}

}  // namespace silt
