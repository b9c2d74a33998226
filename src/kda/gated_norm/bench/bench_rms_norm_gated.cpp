#include "kda/gated_norm/bench/bench_rms_norm_gated.hpp"

#include "bench/case_subject.hpp"
#include "kda/gated_norm/cases.hpp"

// The plain kernel compiled once more without vectorisation (bench/CMakeLists.txt): the baseline of the SIMD kernels.
namespace silt::rms_norm_gated_cpu_scalar_rows {
Status launch(const RmsNormGatedProblem& problem, const RmsNormGatedArgs& args, const Launch& launch);
}  // namespace silt::rms_norm_gated_cpu_scalar_rows

namespace silt::bench {
namespace {

struct Traits {
  using Problem = RmsNormGatedProblem;
  using Case = RmsNormGatedCase;
  static constexpr int64_t kCallsPerStep = 69;  // KDA layers of Kimi-K3
  static Status call(const Case& c, const Launch& launch) { return rms_norm_gated(c.args(), launch); }
  static Status scalar(const Problem& problem, const Case& c, const Launch& launch) {
    return rms_norm_gated_cpu_scalar_rows::launch(problem, c.args(), launch);
  }
  static Problem comparable(Problem problem) { return problem; }
};

}  // namespace

Room rms_norm_gated_room() { return CaseSubject<Traits>::room("rms_norm_gated"); }

}  // namespace silt::bench
