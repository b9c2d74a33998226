#include "attn_res/two_phase/problem.hpp"

namespace silt {
namespace {

int64_t size(DType dtype) { return static_cast<int64_t>(size_of(dtype)); }
constexpr int64_t kStatisticsBytes = 2 * sizeof(float);  // m and s of one token and query

}  // namespace

int64_t bytes(const AttnResPartialsProblem& problem) {
  const int64_t read = problem.n * problem.d * size(problem.dtype);
  const int64_t written = problem.q * (problem.d * size(problem.partial) + kStatisticsBytes);
  return problem.t * (read + written);
}

int64_t flops(const AttnResPartialsProblem& problem) {
  // Per source and column: a multiply-add for the square, and per query one for the dot product and one for the mix.
  return problem.t * problem.n * problem.d * (2 + 4 * problem.q);
}

int64_t bytes(const AttnResMergeProblem& problem) {
  const int64_t rows = 1 + 2 * (problem.delta ? 1 : 0) + (problem.write ? 1 : 0) + 1;
  return problem.t * (problem.d * (rows * size(problem.dtype) + size(problem.partial)) + kStatisticsBytes);
}

int64_t flops(const AttnResMergeProblem& problem) {
  // Per column: two multiply-adds for the statistics of p, a product and a multiply-add for the mixture; delta, norm.
  return problem.t * problem.d * (4 + 3 + (problem.delta ? 1 : 0) + (problem.norm ? 4 : 0));
}

}  // namespace silt
