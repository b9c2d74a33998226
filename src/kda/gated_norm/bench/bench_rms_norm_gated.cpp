#include "kda/gated_norm/bench/bench_rms_norm_gated.hpp"

#include "bench/case_subject.hpp"
#include "kda/gated_norm/cases.hpp"

namespace silt::bench {
namespace {

struct Traits {
  using Problem = RmsNormGatedProblem;
  using Case = RmsNormGatedCase;
  static constexpr int64_t kCallsPerStep = 69;  // KDA layers of Kimi-K3
  static Status call(const Case& c, const Launch& launch) { return rms_norm_gated(c.args(), launch); }
  static Problem comparable(Problem problem) { return problem; }
};

}  // namespace

Room rms_norm_gated_room() { return {"rms_norm_gated", {}, CaseSubject<Traits>::make}; }

}  // namespace silt::bench
