// Plan and launch of hip_gfx942_rows and hip_gfx950_rows.
#include "kda/recurrence/hip/hip_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "kda/recurrence/hip/params.hpp"

namespace silt::kda_recurrence_hip_rows {
namespace {

kda_recurrence_hip::Params make_params(const KdaRecurrenceProblem& problem, const KdaRecurrenceArgs& args) {
  kda_recurrence_hip::Params p{};
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
  p.heads = static_cast<uint32_t>(problem.h);
  p.heads_reciprocal = hip::reciprocal_of(problem.h);
  // An index is an int32, so slots behind its range are out of reach anyway.
  p.slots = static_cast<int32_t>(std::min<int64_t>(problem.slots, std::numeric_limits<int32_t>::max()));
  p.null_slot = static_cast<int32_t>(problem.null_slot);
  p.lower_bound = problem.lower_bound;
  p.softplus_gate = problem.gate == kda::Gate::softplus ? 1 : 0;
  p.output_is_f32 = problem.output == DType::f32 ? 1 : 0;
  return p;
}

/// By state, then q, k and v, then alignment.
hip::Function functions[2][2][2] = {
    {{{"kda_recurrence", "kda_recurrence_hip_rows_f32_f32_any"}, {"kda_recurrence", "kda_recurrence_hip_rows_f32_f32"}},
     {{"kda_recurrence", "kda_recurrence_hip_rows_f32_bf16_any"},
      {"kda_recurrence", "kda_recurrence_hip_rows_f32_bf16"}}},
    {{{"kda_recurrence", "kda_recurrence_hip_rows_bf16_f32_any"},
      {"kda_recurrence", "kda_recurrence_hip_rows_bf16_f32"}},
     {{"kda_recurrence", "kda_recurrence_hip_rows_bf16_bf16_any"},
      {"kda_recurrence", "kda_recurrence_hip_rows_bf16_bf16"}}},
};

/// An ordinary launch whatever `pdl` says: there are no dependent launches here.
Status launch_as(std::string_view kernel, const KdaRecurrenceProblem& problem, const KdaRecurrenceArgs& args,
                 const Launch& launch) {
  hip::Function& function =
      functions[problem.state == DType::bf16 ? 1 : 0][problem.qkv == DType::bf16 ? 1 : 0][aligned(problem) ? 1 : 0];
  return hip::launch({"kda_recurrence", kernel}, function, {problem.n * problem.h, kThreads}, args.q.device, launch,
                     make_params(problem, args));
}

}  // namespace

std::string plan(const KdaRecurrenceProblem& problem, const DeviceFacts&) {
  return fmt::format("a workgroup of {} threads per (sequence, head), state in registers, {}", kThreads,
                     aligned(problem) ? "whole vectors" : "single elements");
}

Status launch_gfx942(const KdaRecurrenceProblem& problem, const KdaRecurrenceArgs& args, const Launch& launch) {
  return launch_as("hip_gfx942_rows", problem, args, launch);
}
Status launch_gfx950(const KdaRecurrenceProblem& problem, const KdaRecurrenceArgs& args, const Launch& launch) {
  return launch_as("hip_gfx950_rows", problem, args, launch);
}

}  // namespace silt::kda_recurrence_hip_rows
