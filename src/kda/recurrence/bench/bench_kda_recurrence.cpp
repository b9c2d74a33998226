#include "kda/recurrence/bench/bench_kda_recurrence.hpp"

#include "bench/case_subject.hpp"
#include "kda/recurrence/cases.hpp"

// The plain kernel compiled once more without vectorisation (bench/CMakeLists.txt): the baseline of the SIMD kernels.
namespace silt::kda_recurrence_cpu_scalar_rows {
Status launch(const KdaRecurrenceProblem& problem, const KdaRecurrenceArgs& args, const Launch& launch);
}  // namespace silt::kda_recurrence_cpu_scalar_rows

namespace silt::bench {
namespace {

struct Traits {
  using Problem = KdaRecurrenceProblem;
  using Case = KdaRecurrenceCase;
  static constexpr int64_t kCallsPerStep = 69;  // KDA layers of Kimi-K3
  static Status call(const Case& c, const Launch& launch) { return kda_recurrence(c.args(), launch); }
  static Status scalar(const Problem& problem, const Case& c, const Launch& launch) {
    return kda_recurrence_cpu_scalar_rows::launch(problem, c.args(), launch);
  }
  /// The oracle follows a head in double precision: about 10 us a token.
  static Problem comparable(Problem problem) {
    constexpr int64_t kMostHeadTokens = 2048;
    if (problem.t * problem.h <= kMostHeadTokens) return problem;
    const int64_t sequences =
        std::max<int64_t>(1, kMostHeadTokens / (problem.h * std::max<int64_t>(problem.length, 1)));
    Problem fewer = problem;
    fewer.n = std::min(problem.n, sequences);
    fewer.length = std::min(problem.length, std::max<int64_t>(1, kMostHeadTokens / problem.h));
    fewer.t = fewer.n * fewer.length;
    fewer.slots = fewer.n * std::max<int64_t>(1, fewer.columns) + 1;
    return fewer;
  }
};

}  // namespace

Room kda_recurrence_room() { return CaseSubject<Traits>::room("kda_recurrence"); }

}  // namespace silt::bench
