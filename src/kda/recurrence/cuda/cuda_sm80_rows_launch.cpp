// Launch of cuda_sm80_rows.
#include "gpu/launch.hpp"
#include "kda/recurrence/cuda/cuda_sm80_rows.hpp"
#include "kda/recurrence/launch_params.hpp"

namespace silt::kda_recurrence_cuda_sm80_rows {
namespace {

kda_recurrence_cuda::Params make_params(const KdaRecurrenceProblem& problem, const KdaRecurrenceArgs& args) {
  auto p = params_of<kda_recurrence_cuda::Params>(problem, args);
  p.safe_gate = problem.gate == kda::Gate::safe;
  return p;
}

}  // namespace

/// An ordinary launch whatever `pdl` says: sm_80 has no dependent launches, and one that starts behind its predecessor
/// is what every contract allows.
Status launch(const KdaRecurrenceProblem& problem, const KdaRecurrenceArgs& args, const Launch& launch) {
  gpu::LaunchShape shape;
  shape.grid = problem.n * problem.h * kda_recurrence_cuda::kBlocksPerHead;
  shape.block = kda_recurrence_cuda::kThreads;
  return gpu::launch({"kda_recurrence", "cuda_sm80_rows"},
                     kda_recurrence_cuda::sm80_rows_kernel(static_cast<int>(size_of(problem.state)),
                                                           problem.qkv == DType::f32, problem.align == 16),
                     shape, args.q.device, launch, make_params(problem, args));
}

}  // namespace silt::kda_recurrence_cuda_sm80_rows
