// kda_prefill: views to a checked problem.
#include "core/check_view.hpp"
#include "core/status.hpp"
#include "kda/prefill/problem.hpp"
#include "kda/shared/check_kda.hpp"
#include "kda/shared/sequences.hpp"

namespace silt {
namespace {

constexpr std::string_view kOp = "kda_prefill";

NamedView named(std::string_view name, const ConstTensorView& view) { return {kOp, name, view}; }

/// Sizes and dtypes that the other arguments must agree with.
Status read_sizes(const KdaPrefillArgs& args, KdaPrefillProblem* made) {
  if (args.x.rank != 2 || args.x.shape[0] < 0 || args.x.shape[1] < 1 || args.x.shape[1] % (3 * kda::kDim) != 0) {
    return invalid("{}: x: shape: has {}, needs [T, 3 * 128 * H]", kOp, shape_text(args.x));
  }
  if (args.state_indices.rank != 1 || args.state_indices.shape[0] < 0) {
    return invalid("{}: state_indices: shape: has {}, needs [N]", kOp, shape_text(args.state_indices));
  }
  made->t = args.x.shape[0];
  made->h = args.x.shape[1] / (3 * kda::kDim);
  made->n = args.state_indices.shape[0];
  made->length = made->n > 0 ? made->t / made->n : 0;
  made->dtype = args.x.dtype;
  if (args.state.rank != 4 || args.state.shape[0] < 0) {
    return invalid("{}: state: shape: has {}, needs [slots, {}, 128, 128]", kOp, shape_text(args.state), made->h);
  }
  made->slots = args.state.shape[0];
  made->state = args.state.dtype;
  return {};
}

Status check_shapes(const KdaPrefillArgs& args, KdaPrefillProblem* made) {
  const int64_t t = made->t;
  const int64_t h = made->h;
  const int64_t p = made->p();
  const DType dtype = made->dtype;
  SILT_TRY(kda::check_rows(named("x", args.x), {DType::bf16, DType::f32}, {t, 3 * p}));
  SILT_TRY(kda::check_dense(named("conv_weight", args.conv_weight), DType::f32, {kda::kParts, kda::kTaps, p}));
  made->bias = args.conv_bias.present();
  if (made->bias) SILT_TRY(kda::check_dense(named("conv_bias", args.conv_bias), DType::f32, {3 * p}));
  SILT_TRY(kda::check_conv_state(named("conv_state", args.conv_state), dtype, made->slots, 3 * p, &made->layout));
  SILT_TRY(kda::check_rows(named("raw_gate", args.raw_gate), {dtype}, {t, h, kda::kDim}));
  SILT_TRY(kda::check_rows(named("raw_beta", args.raw_beta), {dtype}, {t, h}));
  SILT_TRY(kda::check_dense(named("A_log", args.A_log), DType::f32, {h}));
  SILT_TRY(kda::check_dense(named("dt_bias", args.dt_bias), DType::f32, {h, kda::kDim}));
  SILT_TRY(kda::check_dense(named("state_indices", args.state_indices), DType::i32, {made->n}));
  made->initial = args.has_initial_state.present();
  if (made->initial) {
    SILT_TRY(kda::check_dense(named("has_initial_state", args.has_initial_state), DType::i32, {made->n}));
  }
  SILT_TRY(kda::check_state(named("state", args.state), made->slots, h));
  SILT_TRY(kda::check_output_norm(named("output_gate", args.output_gate), named("norm_weight", args.norm_weight), dtype,
                                  {t, h, kda::kDim}, &made->norm));
  return kda::check_written_rows(named("output", args.output), {dtype}, {t, h, kda::kDim});
}

/// One device, and nothing written overlaps anything else.
Status check_memory(const KdaPrefillArgs& args) {
  const NamedView x = named("x", args.x);
  const NamedView conv_state = named("conv_state", kda::slots_as_rows(args.conv_state));
  const NamedView state = named("state", args.state);
  const NamedView output = named("output", args.output);
  const kda::Views read = {x,
                           named("conv_weight", args.conv_weight),
                           named("conv_bias", args.conv_bias),
                           named("raw_gate", args.raw_gate),
                           named("raw_beta", args.raw_beta),
                           named("A_log", args.A_log),
                           named("dt_bias", args.dt_bias),
                           named("offsets", args.offsets),
                           named("state_indices", args.state_indices),
                           named("has_initial_state", args.has_initial_state),
                           named("output_gate", args.output_gate),
                           named("norm_weight", args.norm_weight)};
  SILT_TRY(kda::check_one_device(x, read));
  SILT_TRY(kda::check_one_device(x, {conv_state, state, output}));
  return kda::check_written_alone({output, state, conv_state}, read);
}

}  // namespace

Status check(const KdaPrefillArgs& args, KdaPrefillProblem* problem) {
  KdaPrefillProblem made;
  SILT_TRY(read_sizes(args, &made));
  SILT_TRY(check_shapes(args, &made));
  SILT_TRY(kda::check_gate_rule(kOp, args.safe_gate, args.lower_bound));
  SILT_TRY(check_epsilon(kOp, "norm_eps", args.norm_eps));
  SILT_TRY(kda::check_null_slot(kOp, args.null_slot));
  SILT_TRY(check_memory(args));
  SILT_TRY(kda::check_offsets(named("offsets", args.offsets), made.n, made.t));
  made.gate = args.safe_gate ? kda::Gate::safe : kda::Gate::softplus;
  made.lower_bound = args.safe_gate ? args.lower_bound : 0.0F;
  made.null_slot = args.null_slot;
  made.x_stride = args.x.stride[0];
  made.gate_stride = args.raw_gate.stride[0];
  made.beta_stride = args.raw_beta.stride[0];
  made.output_gate_stride = made.norm ? args.output_gate.stride[0] : 0;
  made.output_stride = args.output.stride[0];
  made.conv_slot_stride = args.conv_state.stride[0];
  made.state_slot_stride = args.state.stride[0];
  made.align =
      kda::common_alignment({args.x, args.conv_weight, args.conv_bias, kda::slots_as_rows(args.conv_state),
                             args.raw_gate, args.dt_bias, args.state, args.output_gate, args.norm_weight, args.output});
  *problem = made;
  return {};
}

std::string KdaPrefillProblem::line() const {
  LinePrinter printer(kOp);
  KdaPrefillProblem copy = *this;
  copy.fields(printer);
  return printer.text();
}

Status KdaPrefillProblem::parse(const ProblemLine& line, KdaPrefillProblem* problem) {
  LineParser parser(line);
  problem->fields(parser);
  const KdaPrefillProblem& p = *problem;
  parser.demand(p.h >= 1, fmt::format("{}: h: has {}, needs h >= 1", kOp, p.h));
  kda::demand_sequences(parser, kOp, p.n, p.length, p.t);
  kda::demand_pool(parser, kOp, p.n, p.padded, p.null_slot, p.slots);
  kda::demand_gate(parser, kOp, p.gate, p.lower_bound);
  parser.demand(p.x_stride >= 0 && p.gate_stride >= 0 && p.beta_stride >= 0 && p.output_gate_stride >= 0,
                fmt::format("{}: strides: have x {}, gate {}, beta {}, output_gate {}, need at least 0", kOp,
                            p.x_stride, p.gate_stride, p.beta_stride, p.output_gate_stride));
  parser.demand(
      p.output_stride >= p.p() && p.conv_slot_stride >= 9 * p.p() && p.state_slot_stride >= p.p() * kda::kDim,
      fmt::format("{}: strides: have output {}, conv_slot {}, state_slot {}, need at least {}, {}, {}", kOp,
                  p.output_stride, p.conv_slot_stride, p.state_slot_stride, p.p(), 9 * p.p(), p.p() * kda::kDim));
  kda::demand_align(parser, kOp, p.align, size_of(p.dtype));
  return parser.finish();
}

}  // namespace silt
