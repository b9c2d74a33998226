#include "kda/conv_update/bench/bench_causal_conv1d_update.hpp"

#include "bench/case_subject.hpp"
#include "kda/conv_update/cases.hpp"

namespace silt::bench {
namespace {

struct Traits {
  using Problem = CausalConv1dUpdateProblem;
  using Case = CausalConv1dUpdateCase;
  static constexpr int64_t kCallsPerStep = 69;  // KDA layers of Kimi-K3
  static Status call(const Case& c, const Launch& launch) { return causal_conv1d_update(c.args(), launch); }
  static Problem comparable(Problem problem) { return problem; }
};

}  // namespace

Room causal_conv1d_update_room() { return {"causal_conv1d_update", {}, CaseSubject<Traits>::make}; }

}  // namespace silt::bench
