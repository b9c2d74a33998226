// Launch of cuda_sm80_rows.
#include "gpu/launch.hpp"
#include "kda/decode/cuda/cuda_sm80_rows.hpp"
#include "kda/decode/cuda/instances.hpp"
#include "kda/decode/cuda/make_params.hpp"

namespace silt::kda_decode_cuda_sm80_rows {

/// An ordinary launch whatever `pdl` says: sm_80 has no dependent launches, and one that starts behind its predecessor
/// is what every contract allows.
Status launch(const KdaDecodeProblem& problem, const KdaDecodeArgs& args, const Launch& launch) {
  const bool aligned = problem.align >= 8 && problem.state_align >= 16;
  gpu::LaunchShape shape;
  shape.grid = problem.b * problem.h;
  shape.block = kda_decode_cuda::kSm80RowsThreads;
  return gpu::launch({"kda_decode", "cuda_sm80_rows"},
                     kda_decode_cuda::sm80_rows_kernel(static_cast<int>(size_of(problem.state)), aligned), shape,
                     args.x.device, launch, kda_decode_cuda::make_params(problem, args));
}

}  // namespace silt::kda_decode_cuda_sm80_rows
