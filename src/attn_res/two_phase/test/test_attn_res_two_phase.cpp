// Both phases together against attn_res: all calls of a depth block from one sweep, and what their bounds add up to
// (contract.md, tolerance).
#include <gtest/gtest.h>

#include <cmath>

#include "attn_res/bounds.hpp"
#include "attn_res/reference.hpp"
#include "attn_res/two_phase/cases.hpp"
#include "attn_res/two_phase/reference.hpp"
#include "attn_res/two_phase/rows.hpp"
#include "proof/kernels_here.hpp"
#include "proof/stop_when_broken.hpp"

namespace silt {
namespace {

template <class Problem>
Problem problem_of(const std::string& text) {
  ProblemLine line;
  Problem problem;
  Status status = parse_line(text, &line);
  if (status.ok()) status = Problem::parse(line, &problem);
  EXPECT_TRUE(status.ok()) << status.message();
  return problem;
}

struct Shape {
  int64_t t;
  int64_t q;
  int64_t n;
  int64_t d;
  DType partial;

  [[nodiscard]] AttnResPartialsCase sweep(uint64_t seed) const {
    return {problem_of<AttnResPartialsProblem>(
                fmt::format("attn_res_partials t={} q={} n={} d={} partial={}", t, q, n, d, partial_name())),
            seed};
  }
  [[nodiscard]] AttnResMergeCase merge(uint64_t seed) const {
    return {problem_of<AttnResMergeProblem>(fmt::format("attn_res_merge t={} d={} partial={}", t, d, partial_name())),
            seed};
  }
  [[nodiscard]] const char* partial_name() const { return partial == DType::bf16 ? "bf16" : "f32"; }
};

/// The merge of query q reads what the sweep wrote.
AttnResMergeCase merge_of(const Shape& shape, const AttnResPartialsCase& sweep, int64_t q) {
  AttnResMergeCase merge = shape.merge(100 + static_cast<uint64_t>(q));
  for (int64_t i = 0; i < 2 * shape.t; ++i) merge.statistics.set(i, sweep.statistics.get(q * 2 * shape.t + i));
  for (int64_t i = 0; i < shape.t * shape.d; ++i) merge.mix.set(i, sweep.mix.get(q * shape.t * shape.d + i));
  for (int64_t i = 0; i < shape.d; ++i) {
    merge.norm_weight.set(i, sweep.norm_weight.get(q * shape.d + i));
    merge.qk_weight.set(i, sweep.qk_weight.get(q * shape.d + i));
  }
  return merge;
}

/// One row of one query against attn_res in double precision.
Verdict compare(const Shape& shape, const AttnResPartialsRow<bf16>& bank, const AttnResMergeRow<bf16>& prefix,
                FunctionRef<double(int64_t)> got) {
  AttnResRow<bf16> row;
  row.d = shape.d;
  row.prefix = prefix.prefix;
  row.delta = prefix.delta;
  row.blocks = bank.blocks;
  row.norm_weight = bank.norm_weight;
  row.qk_weight = bank.qk_weight;
  row.output_norm_weight = prefix.output_norm_weight;
  row.eps = bank.eps;
  row.output_norm_eps = prefix.output_norm_eps;
  AttnResResult<double, bf16> whole;
  attn_res_reference(row, &whole);
  AttnResPartialsResult<double> partial;
  attn_res_partials_reference(bank, &partial);

  // Logits, weights of the bank and of p: as for attn_res. The stored partial: its weights, and its rounding.
  const double moved = attn_res_moved(sum_error(shape.d) * whole.logit_spread);
  const double rounding = shape.partial == DType::bf16 ? 0x1p-9 : kFloatEpsilon;
  double bank_weight = 0;
  for (int64_t i = 0; i < shape.n; ++i) bank_weight += whole.weights[static_cast<size_t>(i)];
  std::vector<double> mix_error;
  for (int64_t i = 0; i < shape.d; ++i) {
    const auto c = static_cast<size_t>(i);
    double largest = std::abs(to_float(whole.prefix[c]));
    for (const bf16* block : bank.blocks) largest = std::max<double>(largest, std::abs(to_float(block[i])));
    const double stored = kAttnResPartialsWeightError * partial.magnitude[c] + rounding * std::abs(partial.mix[c]);
    mix_error.push_back(2 * moved * largest + bank_weight * stored / partial.denominator);
  }
  const std::vector<double> slack =
      attn_res_output_slack({whole.mix, whole.output, whole.scale, row.output_norm_weight}, mix_error);
  return expect_output(
      "output", DType::bf16, shape.d, got, [&](int64_t i) { return whole.output[static_cast<size_t>(i)]; },
      [&](int64_t i) { return slack[static_cast<size_t>(i)]; }, 1);
}

class TwoPhase : public testing::TestWithParam<KernelHere> {};

TEST_P(TwoPhase, IsTheOneCall) {
  const KernelHere& here = GetParam();
  for (const Shape& shape : {Shape{3, 8, 8, 7168, DType::bf16}, Shape{3, 8, 8, 7168, DType::f32},
                             Shape{4, 3, 5, 256, DType::bf16}, Shape{2, 8, 1, 1024, DType::f32}}) {
    AttnResPartialsCase sweep = shape.sweep(7);
    const Status status = sweep.run(here.device, {.policy = Policy::require(here.kernel)});
    if (status.code() == StatusCode::unsupported) continue;
    ASSERT_TRUE(status.ok()) << status.message();
    AttnResPartialsArgs bank;
    bank.blocks = sweep.blocks.host_view();
    bank.norm_weight = sweep.norm_weight.host_view();
    bank.qk_weight = sweep.qk_weight.host_view();
    bank.eps = sweep.eps;
    for (int64_t q = 0; q < shape.q; ++q) {
      AttnResMergeCase merge = merge_of(shape, sweep, q);
      AttnResMergeCase before = merge;
      AttnResMergeArgs prefix;
      prefix.prefix = before.prefix.host_view();
      prefix.delta = before.delta.host_view();
      prefix.statistics = before.statistics.host_view();
      prefix.mix = before.mix.host_view();
      prefix.output_norm_weight = before.output_norm_weight.host_view();
      prefix.output_norm_eps = before.output_norm_eps;
      ASSERT_TRUE(merge.run(here.device, {}).ok());
      for (int64_t t = 0; t < shape.t; ++t) {
        const Verdict verdict = compare(shape, attn_res_partials_row<bf16>(sweep.problem, bank, t, q),
                                        attn_res_merge_row<bf16>(merge.problem, prefix, t),
                                        [&](int64_t i) { return merge.output.get(t * shape.d + i); });
        EXPECT_TRUE(verdict.ok) << sweep.problem.line() << " query " << q << " token " << t << ": " << verdict.detail;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AttnResTwoPhase, TwoPhase, testing::ValuesIn(kernels_here("attn_res_partials")),
                         [](const auto& param) { return param.param.kernel; });

}  // namespace
}  // namespace silt
