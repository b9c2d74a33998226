// Plan and launch of hip_gfx942_rows and hip_gfx950_rows.
#include "attn_res/hip/hip_rows.hpp"

#include <fmt/format.h>

#include "attn_res/launch_params.hpp"
#include "core/status.hpp"

namespace silt::attn_res_hip_rows {
namespace {

attn_res_hip::Params make_params(const AttnResProblem& problem, const AttnResArgs& args, const Plan& plan) {
  auto p = params_of<attn_res_hip::Params>(problem, args);
  p.waves_per_token = static_cast<uint32_t>(plan.waves_per_token);
  p.tokens_per_group = static_cast<uint32_t>(plan.tokens_per_group);
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
