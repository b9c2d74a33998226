// kda_decode: many steps on one state, with the exact state beside it. The comments name the row of docs/cases.md.
#include <cmath>

#include "kda/decode/rows.hpp"
#include "kda/decode/test/kda_decode_test.hpp"
#include "kda/shared/case_pool.hpp"

namespace silt {
namespace {

/// Runs `steps` tokens through one slot, with the exact state in double beside it; `feed` sets the step's inputs.
class LongRun {
 public:
  LongRun(const KdaDecodeProblem& problem, uint64_t seed) : case_(problem, seed) {
    const KdaDecodeArgs args = host_args();
    for (int64_t head = 0; head < problem.h; ++head) {
      windows_.emplace_back();
      kda::load_window(kda_decode_history<bf16>(problem, args, slot(), head), &windows_.back());
      states_.emplace_back();
      kda::load_state(kda_decode_state(problem, args, slot(), head), problem.state, &states_.back());
    }
    bounds_.resize(static_cast<size_t>(problem.h));
  }

  /// The largest relative row error of the state after the step, as a share of 1e-5; `within` says whether every row
  /// keeps the derived bound.
  void step(const KernelHere& here, const Launch& launch, double* worst, bool* within) {
    const Status status = case_.run(here.device, launch);
    ASSERT_TRUE(status.ok()) << status.message();
    const KdaDecodeArgs args = host_args();
    const KdaDecodeProblem& p = case_.problem;
    for (int64_t head = 0; head < p.h; ++head) {
      std::vector<double>& state = states_[static_cast<size_t>(head)];
      const std::vector<double> before = state;
      const kda::HeadWeights w = kda_decode_weights(p, args, head);
      kda::TokenResult<double> token;
      kda::reference_token(w, kda_decode_token<bf16>(p, args, 0, head), &windows_[static_cast<size_t>(head)],
                           state.data(), &token);
      kda::HeadBound& bound = bounds_[static_cast<size_t>(head)];
      bound.step({w.gate, w.lower_bound, w.A_log, w.dt_bias}, kda::conv_errors(token), before.data(), token);
      const auto* got = static_cast<const float*>(kda_decode_state(p, args, slot(), head));
      for (int64_t v = 0; v < kDim; ++v) {
        double error = 0;
        double norm = 0;
        for (int64_t k = 0; k < kDim; ++k) {
          const double want = state[static_cast<size_t>(v * kDim + k)];
          error += (got[v * kDim + k] - want) * (got[v * kDim + k] - want);
          norm += want * want;
        }
        const double share = std::sqrt(error / norm) / 1e-5;
        if (!(share <= *worst)) *worst = share;
        *within = *within && std::sqrt(error) <= std::max(bound.row(v), 1e-5 * std::sqrt(norm));
      }
    }
  }
  [[nodiscard]] int64_t slot() const { return case_.state_indices.get_int(0); }
  KdaDecodeCase& inputs() { return case_; }
  [[nodiscard]] double largest() const {
    double most = 0;
    for (const auto& state : states_) {
      for (const double s : state) most = std::max(most, std::abs(s));
    }
    return most;
  }

 private:
  KdaDecodeArgs host_args() {
    KdaDecodeArgs args;
    args.x = case_.x.host_view();
    args.conv_weight = case_.conv_weight.host_view();
    args.conv_state = case_.conv_state.host_view();
    args.raw_gate = case_.raw_gate.host_view();
    args.raw_beta = case_.raw_beta.host_view();
    args.A_log = case_.A_log.host_view();
    args.dt_bias = case_.dt_bias.host_view();
    args.state = case_.state.host_view();
    return args;
  }

  KdaDecodeCase case_;
  std::vector<kda::Window<bf16>> windows_;
  std::vector<std::vector<double>> states_;
  std::vector<kda::HeadBound> bounds_;
};

class LongRuns : public EveryKernel {};

// 22: 4,096 steps. With decay below 1 the error settles; the factor is what the slowest channels may gather.
TEST_P(LongRuns, ALongRunStaysExact) {
  LongRun run(problem_of("kda_decode b=1 h=1 norm=0"), 14);
  Random random(15);
  double worst = 0;
  bool within = true;
  for (int step = 0; step < 4096; ++step) {
    run.inputs().x.fill([&](int64_t) { return random.uniform(-1.5F, 1.5F); });
    run.inputs().raw_gate.fill([&](int64_t) { return random.uniform(-3, 3); });
    run.inputs().raw_beta.fill([&](int64_t) { return random.uniform(-3, 3); });
    run.step(here(), launch(), &worst, &within);
    ASSERT_TRUE(within) << "step " << step;
  }
  EXPECT_LE(worst, 4.0) << "times the bound of one step";
}

// 18: the same key again and again, beta 1, no decay: the state is replaced, not accumulated
TEST_P(LongRuns, IdenticalKeysStayBounded) {
  LongRun run(problem_of("kda_decode b=1 h=1 norm=0"), 16);
  run.inputs().raw_gate.fill([&](int64_t) { return -kInf; });
  run.inputs().raw_beta.fill([&](int64_t) { return 20.0F; });
  const double before = run.largest();
  Random random(17);
  double worst = 0;
  bool within = true;
  for (int step = 0; step < 512; ++step) {
    for (int64_t i = 2 * kDim; i < 3 * kDim; ++i) run.inputs().x.set(i, random.uniform(-1.5F, 1.5F));  // new values
    run.step(here(), launch(), &worst, &within);
    ASSERT_TRUE(within) << "step " << step;
  }
  EXPECT_LT(run.largest(), before + 4.0);
}

INSTANTIATE_TEST_SUITE_P(KdaDecode, LongRuns, testing::ValuesIn(kernels_here("kda_decode")), kernel_name);

}  // namespace
}  // namespace silt
