#include "kda/gated_norm/problem.hpp"

namespace silt {

int64_t bytes(const RmsNormGatedProblem& problem) {
  const size_t row = size_of(problem.x) + size_of(problem.gate) + size_of(problem.output);
  return problem.t * problem.p() * static_cast<int64_t>(row);
}

int64_t flops(const RmsNormGatedProblem& problem) {
  // Per element: square and sum (2), factor, weight and gate (3), the activation (about 20).
  return problem.t * problem.p() * 25;
}

}  // namespace silt
