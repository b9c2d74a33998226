#include "kda/recurrence/problem.hpp"

namespace silt {
namespace {

/// Rows of live sequences, taking them as equally long.
int64_t live_rows(const KdaRecurrenceProblem& problem) {
  return problem.n == 0 ? 0 : problem.t * (problem.n - problem.padded) / problem.n;
}

}  // namespace

int64_t bytes(const KdaRecurrenceProblem& problem) {
  // Per live sequence and head the state, read and written once; per token and head q, k, v, gate, output, beta.
  const int64_t state = 2 * kda::kDim * kda::kDim * static_cast<int64_t>(size_of(problem.state));
  const auto act = static_cast<int64_t>(size_of(problem.dtype));
  const int64_t token = kda::kDim * (3 * static_cast<int64_t>(size_of(problem.qkv)) + act +
                                     static_cast<int64_t>(size_of(problem.output))) +
                        act;
  return problem.h * ((problem.n - problem.padded) * state + live_rows(problem) * token);
}

int64_t flops(const KdaRecurrenceProblem& problem) {
  // Per state element: decay, predict, correct, read out (7). Per channel about 40 for gate and norms.
  return live_rows(problem) * problem.h * (7 * kda::kDim * kda::kDim + 40 * kda::kDim);
}

}  // namespace silt
