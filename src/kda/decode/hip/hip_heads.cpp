// Plan and launch of hip_gfx942_heads and hip_gfx950_heads.
#include "kda/decode/hip/hip_heads.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "kda/decode/hip/params.hpp"

namespace silt::kda_decode_hip_heads {
namespace {

kda_decode_hip::Params make_params(const KdaDecodeProblem& problem, const KdaDecodeArgs& args) {
  kda_decode_hip::Params p{};
  p.x = static_cast<const uint16_t*>(args.x.data);
  p.conv_weight = static_cast<const float*>(args.conv_weight.data);
  p.conv_bias = static_cast<const float*>(args.conv_bias.data);
  p.history = static_cast<uint16_t*>(args.conv_state.data);
  p.raw_gate = static_cast<const uint16_t*>(args.raw_gate.data);
  p.raw_beta = static_cast<const uint16_t*>(args.raw_beta.data);
  p.a_log = static_cast<const float*>(args.A_log.data);
  p.dt_bias = static_cast<const float*>(args.dt_bias.data);
  p.indices = static_cast<const int32_t*>(args.state_indices.data);
  p.state = args.state.data;
  p.output_gate = static_cast<const uint16_t*>(args.output_gate.data);
  p.norm_weight = static_cast<const float*>(args.norm_weight.data);
  p.output = static_cast<uint16_t*>(args.output.data);
  p.x_stride = problem.x_stride;
  p.gate_stride = problem.gate_stride;
  p.beta_stride = problem.beta_stride;
  p.output_gate_stride = problem.output_gate_stride;
  p.output_stride = problem.output_stride;
  p.history_slot_stride = problem.conv_slot_stride;
  p.state_slot_stride = problem.state_slot_stride;
  p.heads = static_cast<uint32_t>(problem.h);
  p.heads_reciprocal = hip::reciprocal_of(problem.h);
  // An index is an int32, so slots behind its range are out of reach anyway.
  p.slots = static_cast<int32_t>(std::min<int64_t>(problem.slots, std::numeric_limits<int32_t>::max()));
  p.null_slot = static_cast<int32_t>(problem.null_slot);
  p.lower_bound = problem.lower_bound;
  p.norm_eps = args.norm_eps;
  p.channel_major = problem.layout == kda::History::ds ? 1 : 0;
  p.softplus_gate = problem.gate == kda::Gate::softplus ? 1 : 0;
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
  return hip::launch({"kda_decode", kernel}, function, {problem.b * problem.h, kThreads}, args.x.device, launch,
                     make_params(problem, args));
}

}  // namespace

std::string plan(const KdaDecodeProblem& problem, const DeviceFacts&) {
  return fmt::format("a workgroup of {} threads per (row, head), state in registers, {}", kThreads,
                     aligned(problem) ? "whole vectors" : "single elements");
}

Status launch_gfx942(const KdaDecodeProblem& problem, const KdaDecodeArgs& args, const Launch& launch) {
  return launch_as("hip_gfx942_heads", problem, args, launch);
}
Status launch_gfx950(const KdaDecodeProblem& problem, const KdaDecodeArgs& args, const Launch& launch) {
  return launch_as("hip_gfx950_heads", problem, args, launch);
}

}  // namespace silt::kda_decode_hip_heads
