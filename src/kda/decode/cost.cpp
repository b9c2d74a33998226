#include "kda/decode/problem.hpp"

namespace silt {

int64_t bytes(const KdaDecodeProblem& problem) {
  // Per live row and head: state and history read and written, x, gate, output gate, output, beta. Weights are shared.
  const auto act = static_cast<int64_t>(size_of(problem.dtype));
  const int64_t state = 2 * kda::kDim * kda::kDim * static_cast<int64_t>(size_of(problem.state));
  const int64_t vectors = kda::kParts + 2 * kda::kParts * kda::kHistory + 1 + (problem.norm ? 1 : 0) + 1;
  return (problem.b - problem.padded) * problem.h * (state + (vectors * kda::kDim + 1) * act);
}

int64_t flops(const KdaDecodeProblem& problem) {
  // Per state element: decay, predict, correct, read out (7). Per channel: convolution (8 each for q, k, v), about 40
  // for activations, gate and norms.
  const int64_t head = 7 * kda::kDim * kda::kDim + (8 * kda::kParts + 40) * kda::kDim;
  return (problem.b - problem.padded) * problem.h * head;
}

}  // namespace silt
