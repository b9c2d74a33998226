#include "attn_res/problem.hpp"

namespace silt {

int64_t bytes(const AttnResProblem& problem) {
  const int64_t rows = problem.n + 1 + 2 * (problem.delta ? 1 : 0) + (problem.write >= 0 ? 1 : 0) + 1;
  return problem.t * rows * problem.d * static_cast<int64_t>(size_of(problem.dtype));
}

int64_t flops(const AttnResProblem& problem) {
  // Per source and column: two multiply-adds for the statistics, one for the mixture. Per column: delta, output norm.
  const int64_t sources = problem.n == 0 ? 0 : problem.n + 1;
  const int64_t per_column = 6 * sources + (problem.delta ? 1 : 0) + (problem.norm ? 4 : 0);
  return problem.t * problem.d * per_column;
}

}  // namespace silt
