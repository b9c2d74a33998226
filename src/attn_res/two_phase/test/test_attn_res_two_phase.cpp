// Both phases together against attn_res: all calls of a depth block from one sweep, and what their bounds add up to
// (contract.md, tolerance).
#include <gtest/gtest.h>

#include <cmath>

#include "silt/choose.hpp"

#include "attn_res/bounds.hpp"
#include "attn_res/reference.hpp"
#include "attn_res/two_phase/cases.hpp"
#include "attn_res/two_phase/cuda/cuda_sm90_direct.hpp"
#include "attn_res/two_phase/cuda/cuda_sm90_tensor.hpp"
#include "attn_res/two_phase/reference.hpp"
#include "attn_res/two_phase/rows.hpp"
#include "proof/room_test.hpp"
#include "proof/stop_when_broken.hpp"

namespace silt {
namespace {

struct Shape {
  int64_t t;
  int64_t q;
  int64_t n;
  int64_t d;
  DType partial;

  [[nodiscard]] AttnResPartialsCase sweep(uint64_t seed) const {
    return {parsed<AttnResPartialsProblem>(
                fmt::format("attn_res_partials t={} q={} n={} d={} partial={}", t, q, n, d, partial_name())),
            seed};
  }
  [[nodiscard]] AttnResMergeCase merge(uint64_t seed) const {
    return {parsed<AttnResMergeProblem>(fmt::format("attn_res_merge t={} d={} partial={}", t, d, partial_name())),
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

std::string chosen(const std::string& line, const char* device) {
  DeviceFacts facts;
  EXPECT_TRUE(canned_facts(device, &facts).ok());
  Explanation explanation;
  const Status status = explain(line, facts, {}, &explanation);
  return status.ok() ? explanation.kernel : status.message();
}

// 35
TEST(TwoPhaseDispatch, NativeNeverFallsBack) {
  for (const char* device : {"h100", "h200", "b200", "b300"}) {
    for (const int d : {128, 256, 512, 2304, 4096, 5120, 7168}) {
      for (const char* partial : {"bf16", "f32"}) {
        for (int n = 1; n <= 8; ++n) {
          for (const int q : {1, 3, 8}) {
            const std::string line =
                fmt::format("attn_res_partials t={} q={} n={} d={} r=9 partial={}", 1 << n, q, n, d, partial);
            ASSERT_EQ(chosen(line, device), "cuda_sm90_tensor") << device << " " << line;
          }
        }
        for (int key = 0; d % 256 == 0 && key < 8; ++key) {
          const std::string line = fmt::format("attn_res_merge t=133 d={} delta={} norm={} write={} partial={}", d,
                                               key & 1, key >> 1 & 1, key >> 2 & 1, partial);
          ASSERT_EQ(chosen(line, device), "cuda_sm90_direct") << device << " " << line;
        }
      }
    }
  }
}

TEST(TwoPhaseDispatch, OlderAndForeignShapesGoPortable) {
  EXPECT_EQ(chosen("attn_res_partials t=5 q=8 n=8 d=7168", "a100"), "cuda_sm80_rows");
  EXPECT_EQ(chosen("attn_res_partials t=5 q=8 n=9 d=7168", "h200"), "cuda_sm80_rows");
  EXPECT_EQ(chosen("attn_res_partials t=5 q=8 n=8 d=8192", "h200"), "cuda_sm80_rows");
  EXPECT_EQ(chosen("attn_res_partials t=5 q=8 n=8 d=7168 align=8", "h200"), "cuda_sm80_rows");
  EXPECT_EQ(chosen("attn_res_merge t=5 d=7168", "a100"), "cuda_sm80_rows");
  EXPECT_EQ(chosen("attn_res_merge t=5 d=4104", "h200"), "cuda_sm80_rows");
  EXPECT_EQ(chosen("attn_res_merge t=5 d=7168 align=8", "h200"), "cuda_sm80_rows");
  EXPECT_NE(chosen("attn_res_merge t=5 d=7168 dtype=f32", "h200").find("no kernel"), std::string::npos);
}

TEST(TwoPhaseDispatch, EveryPlanFits) {
  namespace tensor = attn_res_partials_cuda_sm90_tensor;
  for (int64_t d = tensor::kColumnStep; d <= tensor::kMostColumns; d += tensor::kColumnStep) {
    for (int64_t n = 1; n <= tensor::kMostSources; ++n) {
      const int stages = tensor::stages(n, d);
      EXPECT_GE(stages, 2) << "n " << n << " d " << d << ": nothing is under way while a token is computed";
      EXPECT_LE(tensor::shared_bytes(n, d, stages), tensor::kSharedBytes) << "n " << n << " d " << d;
    }
  }
  namespace direct = attn_res_merge_cuda_sm90_direct;
  for (int64_t d = 256; d <= 8192; d += 256) {
    for (const int64_t t : {1, 100, 160, 161, 1024, 8192}) {
      for (const Pdl pdl : {Pdl::off, Pdl::wait, Pdl::late}) {
        AttnResMergeProblem problem;
        problem.t = t;
        problem.d = d;
        EXPECT_TRUE(direct::fits(direct::choose_plan(problem, pdl), d)) << "t " << t << " d " << d;
      }
    }
  }
}

TEST(TwoPhasePays, ByTheCostModel) {
  const auto pays = [](const char* device, int64_t t, int64_t n, int64_t queries, DType partial = DType::bf16) {
    DeviceFacts facts;
    EXPECT_TRUE(canned_facts(device, &facts).ok());
    return attn_res_two_phase_pays(t, 7168, n, queries, partial, facts);
  };
  EXPECT_TRUE(pays("h200", 4096, 8, 8));
  EXPECT_TRUE(pays("h200", 1024, 8, 4));
  EXPECT_TRUE(pays("b200", 4096, 8, 8, DType::f32));
  // One query is written and read once more for nothing, up to three blocks are read as fast as their sum.
  for (int64_t n = 1; n <= 8; ++n) EXPECT_FALSE(pays("h200", 8192, n, 1)) << n;
  for (int64_t q = 1; q <= 8; ++q) {
    EXPECT_FALSE(pays("h200", 8192, 1, q)) << q;
    EXPECT_FALSE(pays("h200", 8192, 2, q)) << q;
    EXPECT_FALSE(pays("h200", 8192, 3, q)) << q;
    EXPECT_FALSE(pays("h200", 16, 8, q)) << q << " queries of a decode step";
    // More tokens or more queries never turn it round.
    for (int64_t t = 1; t < 8192; t *= 2) EXPECT_LE(pays("h200", t, 8, q), pays("h200", 2 * t, 8, q)) << t;
    if (q > 1) {
      EXPECT_LE(pays("h200", 512, 8, q - 1), pays("h200", 512, 8, q));
    }
  }
  // Without native kernels, or in wrong hands.
  for (const char* device : {"a100", "zen4", "mi300x"}) EXPECT_FALSE(pays(device, 4096, 8, 8)) << device;
  EXPECT_FALSE(pays("h200", 4096, 9, 8));
  EXPECT_FALSE(pays("h200", 4096, 8, 9));
  EXPECT_FALSE(pays("h200", 0, 8, 8));
}

INSTANTIATE_TEST_SUITE_P(AttnResTwoPhase, TwoPhase, testing::ValuesIn(kernels_here("attn_res_partials")),
                         [](const auto& param) { return param.param.kernel; });

}  // namespace
}  // namespace silt
