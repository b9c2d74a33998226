// Launch of hip_gfx942_rows and hip_gfx950_rows.
#include "kda/gated_norm/hip/hip_rows.hpp"

#include "kda/gated_norm/launch_params.hpp"

namespace silt::rms_norm_gated_hip_rows {
namespace {

rms_norm_gated_hip::Params make_params(const RmsNormGatedProblem& problem, const RmsNormGatedArgs& args) {
  auto p = params_of<rms_norm_gated_hip::Params>(problem, args);
  p.heads_reciprocal = hip::reciprocal_of(problem.h);
  return p;
}

/// By x, then output, then alignment.
hip::Function functions[2][2][2] = {
    {{{"rms_norm_gated", "rms_norm_gated_hip_rows_f32_f32_any"}, {"rms_norm_gated", "rms_norm_gated_hip_rows_f32_f32"}},
     {{"rms_norm_gated", "rms_norm_gated_hip_rows_f32_bf16_any"},
      {"rms_norm_gated", "rms_norm_gated_hip_rows_f32_bf16"}}},
    {{{"rms_norm_gated", "rms_norm_gated_hip_rows_bf16_f32_any"},
      {"rms_norm_gated", "rms_norm_gated_hip_rows_bf16_f32"}},
     {{"rms_norm_gated", "rms_norm_gated_hip_rows_bf16_bf16_any"},
      {"rms_norm_gated", "rms_norm_gated_hip_rows_bf16_bf16"}}},
};

/// An ordinary launch whatever `pdl` says: there are no dependent launches here.
Status launch_as(std::string_view kernel, const RmsNormGatedProblem& problem, const RmsNormGatedArgs& args,
                 const Launch& launch) {
  constexpr int64_t kItems = rms_norm_gated_hip::kItemsPerGroup;
  hip::Function& function =
      functions[problem.x == DType::bf16 ? 1 : 0][problem.output == DType::bf16 ? 1 : 0][aligned(problem) ? 1 : 0];
  return hip::launch({"rms_norm_gated", kernel}, function,
                     {(problem.t * problem.h + kItems - 1) / kItems, rms_norm_gated_hip::kThreads}, args.x.device,
                     launch, make_params(problem, args));
}

}  // namespace

Status launch_gfx942(const RmsNormGatedProblem& problem, const RmsNormGatedArgs& args, const Launch& launch) {
  return launch_as("hip_gfx942_rows", problem, args, launch);
}
Status launch_gfx950(const RmsNormGatedProblem& problem, const RmsNormGatedArgs& args, const Launch& launch) {
  return launch_as("hip_gfx950_rows", problem, args, launch);
}

}  // namespace silt::rms_norm_gated_hip_rows
