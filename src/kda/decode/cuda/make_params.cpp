#include "kda/decode/cuda/make_params.hpp"

#include "kda/decode/launch_params.hpp"

namespace silt::kda_decode_cuda {

Params make_params(const KdaDecodeProblem& problem, const KdaDecodeArgs& args) {
  auto p = params_of<Params>(problem, args);
  p.heads_reciprocal = reciprocal_of(problem.h);
  p.safe_gate = problem.gate == kda::Gate::safe;
  return p;
}

}  // namespace silt::kda_decode_cuda
