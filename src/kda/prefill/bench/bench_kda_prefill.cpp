#include "kda/prefill/bench/bench_kda_prefill.hpp"

#include <algorithm>

#include "bench/case_subject.hpp"
#include "kda/prefill/cases.hpp"

// The plain kernel compiled once more without vectorisation (bench/CMakeLists.txt): the baseline of the SIMD kernels.
namespace silt::kda_prefill_cpu_scalar_rows {
Status launch(const KdaPrefillProblem& problem, const KdaPrefillArgs& args, const Launch& launch);
}  // namespace silt::kda_prefill_cpu_scalar_rows

namespace silt::bench {
namespace {

struct Traits {
  using Problem = KdaPrefillProblem;
  using Case = KdaPrefillCase;
  static constexpr int64_t kCallsPerStep = 69;  // KDA layers of Kimi-K3
  static Status call(const Case& c, const Launch& launch) { return kda_prefill(c.args(), launch); }
  static Status scalar(const Problem& problem, const Case& c, const Launch& launch) {
    return kda_prefill_cpu_scalar_rows::launch(problem, c.args(), launch);
  }
  /// The oracle follows a head token by token in double precision: fewer and shorter sequences of the same call.
  static Problem comparable(Problem problem) {
    constexpr int64_t kMostHeadTokens = 2048;
    if (problem.t * problem.h <= kMostHeadTokens) return problem;
    const int64_t length = std::min(problem.length, std::max<int64_t>(1, kMostHeadTokens / problem.h));
    Problem fewer = problem;
    fewer.length = length;
    fewer.n = std::min(problem.n, std::max<int64_t>(1, kMostHeadTokens / (problem.h * length)));
    fewer.t = fewer.n * fewer.length;
    fewer.slots = fewer.n + 1;
    return fewer;
  }
};

}  // namespace

Room kda_prefill_room() { return CaseSubject<Traits>::room("kda_prefill"); }

}  // namespace silt::bench
