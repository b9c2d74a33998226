// Plan and launch of hip_gfx942_rows and hip_gfx950_rows.
#include "kda/recurrence/hip/hip_rows.hpp"

#include <fmt/format.h>

#include "kda/recurrence/hip/params.hpp"
#include "kda/recurrence/launch_params.hpp"

namespace silt::kda_recurrence_hip_rows {
namespace {

kda_recurrence_hip::Params make_params(const KdaRecurrenceProblem& problem, const KdaRecurrenceArgs& args) {
  auto p = params_of<kda_recurrence_hip::Params>(problem, args);
  p.heads_reciprocal = hip::reciprocal_of(problem.h);
  p.softplus_gate = problem.gate == kda::Gate::softplus;
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
  return hip::launch({"kda_recurrence", kernel}, function, {problem.n * problem.h, kda_hip::kThreadsPerHead},
                     args.q.device, launch, make_params(problem, args));
}

}  // namespace

std::string plan(const KdaRecurrenceProblem& problem, const DeviceFacts&) {
  return fmt::format("a workgroup of {} threads per (sequence, head), state in registers, {}", kda_hip::kThreadsPerHead,
                     aligned(problem) ? "whole vectors" : "single elements");
}

Status launch_gfx942(const KdaRecurrenceProblem& problem, const KdaRecurrenceArgs& args, const Launch& launch) {
  return launch_as("hip_gfx942_rows", problem, args, launch);
}
Status launch_gfx950(const KdaRecurrenceProblem& problem, const KdaRecurrenceArgs& args, const Launch& launch) {
  return launch_as("hip_gfx950_rows", problem, args, launch);
}

}  // namespace silt::kda_recurrence_hip_rows
