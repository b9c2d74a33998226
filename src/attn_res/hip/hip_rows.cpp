// Plan and launch of hip_gfx942_rows and hip_gfx950_rows.
#include "attn_res/hip/hip_rows.hpp"

#include <fmt/format.h>

#include "core/status.hpp"

namespace silt::attn_res_hip_rows {
namespace {

attn_res_hip::Params make_params(const AttnResProblem& problem, const AttnResArgs& args, const Plan& plan) {
  attn_res_hip::Params p{};
  p.prefix = static_cast<uint16_t*>(args.prefix.data);
  p.delta = static_cast<const uint16_t*>(args.delta.data);
  p.blocks = static_cast<const uint16_t*>(args.blocks.data);
  if (problem.write >= 0) {
    p.written = static_cast<uint16_t*>(args.blocks.data) + problem.write * problem.block_slot_stride;
  }
  p.norm_weight = static_cast<const uint16_t*>(args.norm_weight.data);
  p.qk_weight = static_cast<const uint16_t*>(args.qk_weight.data);
  p.output_norm_weight = static_cast<const uint16_t*>(args.output_norm_weight.data);
  p.output = static_cast<uint16_t*>(args.output.data);
  p.prefix_stride = problem.prefix_stride;
  p.delta_stride = problem.delta_stride;
  p.block_token_stride = problem.block_token_stride;
  p.block_slot_stride = problem.block_slot_stride;
  p.output_stride = problem.output_stride;
  p.t = static_cast<uint32_t>(problem.t);
  p.d = static_cast<uint32_t>(problem.d);
  p.n = static_cast<uint32_t>(problem.n);
  p.waves_per_token = static_cast<uint32_t>(plan.waves_per_token);
  p.tokens_per_group = static_cast<uint32_t>(plan.tokens_per_group);
  p.inverse_d = 1.0F / static_cast<float>(problem.d);
  p.eps = args.eps;
  p.output_norm_eps = args.output_norm_eps;
  return p;
}

constexpr std::string_view kObject = "attn_res";
/// By number of blocks.
hip::Function held_functions[] = {
    {kObject, "attn_res_hip_rows_0"}, {kObject, "attn_res_hip_rows_1"}, {kObject, "attn_res_hip_rows_2"},
    {kObject, "attn_res_hip_rows_3"}, {kObject, "attn_res_hip_rows_4"}, {kObject, "attn_res_hip_rows_5"},
    {kObject, "attn_res_hip_rows_6"}, {kObject, "attn_res_hip_rows_7"}, {kObject, "attn_res_hip_rows_8"},
};
hip::Function wide_function = {kObject, "attn_res_hip_rows_wide"};
hip::Function any_function = {kObject, "attn_res_hip_rows_any"};

hip::Function& function_of(const AttnResProblem& problem, const Plan& plan) {
  if (plan.held) return held_functions[problem.n];
  return whole_vectors(problem) ? wide_function : any_function;
}

Status launch_as(std::string_view kernel, const AttnResProblem& problem, const AttnResArgs& args,
                 const Launch& launch) {
  const DeviceFacts* facts = nullptr;
  SILT_TRY(hip::launch_facts(args.prefix.device, &facts));
  return launch_plan(kernel, choose_plan(problem, facts->processors), problem, args, launch);
}

}  // namespace

/// An ordinary launch whatever `pdl` says: there are no dependent launches here, and one that starts behind its
/// predecessor is what every contract allows.
Status launch_plan(std::string_view kernel, const Plan& plan, const AttnResProblem& problem, const AttnResArgs& args,
                   const Launch& launch) {
  const int64_t groups = (problem.t + plan.tokens_per_group - 1) / plan.tokens_per_group;
  return hip::launch({"attn_res", kernel}, function_of(problem, plan), {groups, threads(plan)}, args.prefix.device,
                     launch, make_params(problem, args, plan));
}

std::string plan(const AttnResProblem& problem, const DeviceFacts& facts) {
  const Plan plan = choose_plan(problem, facts.processors);
  if (plan.held) {
    return fmt::format("{} waves a token, {} tokens a workgroup, rows in registers", plan.waves_per_token,
                       plan.tokens_per_group);
  }
  return fmt::format("{} threads a token, rows read twice, {}", threads(plan),
                     whole_vectors(problem) ? "whole vectors" : "single elements");
}

Status launch_gfx942(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch) {
  return launch_as("hip_gfx942_rows", problem, args, launch);
}
Status launch_gfx950(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch) {
  return launch_as("hip_gfx950_rows", problem, args, launch);
}

}  // namespace silt::attn_res_hip_rows
