#include "kda/conv_update/problem.hpp"

namespace silt {

int64_t bytes(const CausalConv1dUpdateProblem& problem) {
  // Per live sequence and channel: history read and written, x and output once per token. Weights are shared.
  const auto act = static_cast<int64_t>(size_of(problem.dtype));
  const auto out = static_cast<int64_t>(size_of(problem.output));
  return (problem.b - problem.padded) * problem.c * (2 * kda::kHistory * act + problem.n * (act + out));
}

int64_t flops(const CausalConv1dUpdateProblem& problem) {
  // Four multiply-adds and SiLU (about 20).
  return (problem.b - problem.padded) * problem.n * problem.c * (2 * kda::kTaps + 20);
}

}  // namespace silt
