#include "kda/conv_update/bench/bench_causal_conv1d_update.hpp"

#include "bench/case_subject.hpp"
#include "kda/conv_update/cases.hpp"

// The plain kernel compiled once more without vectorisation (bench/CMakeLists.txt): the baseline of the SIMD kernels.
namespace silt::causal_conv1d_update_cpu_scalar_rows {
Status launch(const CausalConv1dUpdateProblem& problem, const CausalConv1dUpdateArgs& args, const Launch& launch);
}  // namespace silt::causal_conv1d_update_cpu_scalar_rows

namespace silt::bench {
namespace {

struct Traits {
  using Problem = CausalConv1dUpdateProblem;
  using Case = CausalConv1dUpdateCase;
  static constexpr int64_t kCallsPerStep = 69;  // KDA layers of Kimi-K3
  static Status call(const Case& c, const Launch& launch) { return causal_conv1d_update(c.args(), launch); }
  static Status scalar(const Problem& problem, const Case& c, const Launch& launch) {
    return causal_conv1d_update_cpu_scalar_rows::launch(problem, c.args(), launch);
  }
  static Problem comparable(Problem problem) { return problem; }
};

}  // namespace

Room causal_conv1d_update_room() { return CaseSubject<Traits>::room("causal_conv1d_update"); }

}  // namespace silt::bench
