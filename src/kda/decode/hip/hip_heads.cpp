// Plan and launch of hip_gfx942_heads and hip_gfx950_heads.
#include "kda/decode/hip/hip_heads.hpp"

#include <fmt/format.h>

#include "kda/decode/hip/params.hpp"
#include "kda/decode/launch_params.hpp"

namespace silt::kda_decode_hip_heads {
namespace {

kda_decode_hip::Params make_params(const KdaDecodeProblem& problem, const KdaDecodeArgs& args) {
  auto p = params_of<kda_decode_hip::Params>(problem, args);
  p.heads_reciprocal = hip::reciprocal_of(problem.h);
  p.softplus_gate = problem.gate == kda::Gate::softplus;
  return p;
}

/// By alignment of f32, then of bf16 state.
hip::Function functions[] = {
    {"kda_decode", "kda_decode_hip_heads_f32_any"},
    {"kda_decode", "kda_decode_hip_heads_f32"},
    {"kda_decode", "kda_decode_hip_heads_bf16_any"},
    {"kda_decode", "kda_decode_hip_heads_bf16"},
};

/// An ordinary launch whatever `pdl` says: there are no dependent launches here, and one that starts behind its
/// predecessor is what every contract allows.
Status launch_as(std::string_view kernel, const KdaDecodeProblem& problem, const KdaDecodeArgs& args,
                 const Launch& launch) {
  hip::Function& function = functions[(problem.state == DType::bf16 ? 2 : 0) + (aligned(problem) ? 1 : 0)];
  return hip::launch({"kda_decode", kernel}, function, {problem.b * problem.h, kda_hip::kThreadsPerHead}, args.x.device,
                     launch, make_params(problem, args));
}

}  // namespace

std::string plan(const KdaDecodeProblem& problem, const DeviceFacts&) {
  return fmt::format("a workgroup of {} threads per (row, head), state in registers, {}", kda_hip::kThreadsPerHead,
                     aligned(problem) ? "whole vectors" : "single elements");
}

Status launch_gfx942(const KdaDecodeProblem& problem, const KdaDecodeArgs& args, const Launch& launch) {
  return launch_as("hip_gfx942_heads", problem, args, launch);
}
Status launch_gfx950(const KdaDecodeProblem& problem, const KdaDecodeArgs& args, const Launch& launch) {
  return launch_as("hip_gfx950_heads", problem, args, launch);
}

}  // namespace silt::kda_decode_hip_heads
