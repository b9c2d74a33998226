// From the checked call to what the kernels of this room take.
#pragma once

#include "kda/decode/cuda/params.hpp"
#include "kda/decode/problem.hpp"

namespace silt::kda_decode_cuda {

Params make_params(const KdaDecodeProblem& problem, const KdaDecodeArgs& args);

}  // namespace silt::kda_decode_cuda
