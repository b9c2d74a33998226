#include "kda/prefill/problem.hpp"

namespace silt {
namespace {

/// Rows of live sequences, taking them as equally long.
int64_t live_rows(const KdaPrefillProblem& problem) {
  return problem.n == 0 ? 0 : problem.t * (problem.n - problem.padded) / problem.n;
}

}  // namespace

int64_t bytes(const KdaPrefillProblem& problem) {
  // Per live sequence and head state and history, read and written once; per token and head x, gate, output gate,
  // output, beta.
  const auto act = static_cast<int64_t>(size_of(problem.dtype));
  const int64_t state = 2 * kda::kDim * kda::kDim * static_cast<int64_t>(size_of(problem.state));
  const int64_t history = 2 * kda::kHistory * kda::kParts * kda::kDim * act;
  const int64_t token = ((kda::kParts + 2 + (problem.norm ? 1 : 0)) * kda::kDim + 1) * act;
  return problem.h * ((problem.n - problem.padded) * (state + history) + live_rows(problem) * token);
}

int64_t flops(const KdaPrefillProblem& problem) {
  // The recurrence as it is written: 7 per state element and token; 8 per convolved channel and about 40 for
  // activations, gate and norms.
  return live_rows(problem) * problem.h * (7 * kda::kDim * kda::kDim + (8 * kda::kParts + 40) * kda::kDim);
}

}  // namespace silt
