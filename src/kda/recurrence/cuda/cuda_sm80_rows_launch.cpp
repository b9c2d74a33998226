// Launch of cuda_sm80_rows.
#include <algorithm>
#include <limits>

#include "gpu/launch.hpp"
#include "kda/recurrence/cuda/cuda_sm80_rows.hpp"

namespace silt::kda_recurrence_cuda_sm80_rows {
namespace {

kda_recurrence_cuda::Params make_params(const KdaRecurrenceProblem& problem, const KdaRecurrenceArgs& args) {
  kda_recurrence_cuda::Params p;
  p.q = args.q.data;
  p.k = args.k.data;
  p.v = args.v.data;
  p.raw_gate = static_cast<const uint16_t*>(args.raw_gate.data);
  p.raw_beta = static_cast<const uint16_t*>(args.raw_beta.data);
  p.a_log = static_cast<const float*>(args.A_log.data);
  p.dt_bias = static_cast<const float*>(args.dt_bias.data);
  p.offsets = static_cast<const int32_t*>(args.offsets.data);
  p.indices = static_cast<const int32_t*>(args.state_indices.data);
  p.accepted = static_cast<const int32_t*>(args.accepted.data);
  p.state = args.state.data;
  p.output = args.output.data;
  p.q_stride = problem.q_stride;
  p.k_stride = problem.k_stride;
  p.v_stride = problem.v_stride;
  p.gate_stride = problem.gate_stride;
  p.beta_stride = problem.beta_stride;
  p.output_stride = problem.output_stride;
  p.state_slot_stride = problem.state_slot_stride;
  p.columns = problem.columns;
  p.heads = static_cast<int32_t>(problem.h);
  // An index is an int32, so slots behind its range are out of reach anyway.
  p.slots = static_cast<int32_t>(std::min<int64_t>(problem.slots, std::numeric_limits<int32_t>::max()));
  p.null_slot = static_cast<int32_t>(problem.null_slot);
  p.lower_bound = problem.lower_bound;
  p.safe_gate = problem.gate == kda::Gate::safe;
  p.output_is_f32 = problem.output == DType::f32;
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
