// kda_recurrence: views to a checked problem.
#include <algorithm>

#include "core/check_view.hpp"
#include "core/status.hpp"
#include "kda/recurrence/problem.hpp"
#include "kda/shared/check_kda.hpp"
#include "kda/shared/sequences.hpp"

namespace silt {
namespace {

constexpr std::string_view kOp = "kda_recurrence";

NamedView named(std::string_view name, const ConstTensorView& view) { return {kOp, name, view}; }

/// Sizes and dtypes that the other arguments must agree with.
Status read_sizes(const KdaRecurrenceArgs& args, KdaRecurrenceProblem* made) {
  if (args.q.rank != 3 || args.q.shape[0] < 0 || args.q.shape[1] < 1) {
    return invalid("{}: q: shape: has {}, needs [T, H, 128]", kOp, shape_text(args.q));
  }
  if (args.state_indices.rank != 1 || args.state_indices.shape[0] < 0) {
    return invalid("{}: state_indices: shape: has {}, needs [N]", kOp, shape_text(args.state_indices));
  }
  made->h = args.q.shape[1];
  made->n = args.state_indices.shape[0];
  made->offsets = args.offsets.present();
  made->t = made->offsets ? args.q.shape[0] : made->n;
  made->length = made->n > 0 ? made->t / made->n : 0;
  made->qkv = args.q.dtype;
  made->dtype = args.raw_gate.dtype;
  made->output = args.output.dtype;
  if (args.state.rank != 4 || args.state.shape[0] < 0) {
    return invalid("{}: state: shape: has {}, needs [slots, {}, 128, 128]", kOp, shape_text(args.state), made->h);
  }
  made->slots = args.state.shape[0];
  made->state = args.state.dtype;
  return {};
}

Status check_shapes(const KdaRecurrenceArgs& args, const KdaRecurrenceProblem& made) {
  const int64_t t = made.t;
  const int64_t h = made.h;
  SILT_TRY(kda::check_rows(named("q", args.q), {DType::bf16, DType::f32}, {t, h, kda::kDim}));
  SILT_TRY(kda::check_rows(named("k", args.k), {made.qkv}, {t, h, kda::kDim}));
  SILT_TRY(kda::check_rows(named("v", args.v), {made.qkv}, {t, h, kda::kDim}));
  SILT_TRY(kda::check_rows(named("raw_gate", args.raw_gate), {DType::bf16, DType::f32}, {t, h, kda::kDim}));
  SILT_TRY(kda::check_rows(named("raw_beta", args.raw_beta), {made.dtype}, {t, h}));
  SILT_TRY(kda::check_dense(named("A_log", args.A_log), DType::f32, {h}));
  SILT_TRY(kda::check_dense(named("dt_bias", args.dt_bias), DType::f32, {h, kda::kDim}));
  SILT_TRY(kda::check_dense(named("state_indices", args.state_indices), DType::i32, {made.n}));
  SILT_TRY(kda::check_state(named("state", args.state), made.slots, h));
  return kda::check_written_rows(named("output", args.output), {DType::bf16, DType::f32}, {t, h, kda::kDim});
}

/// One device, and nothing written overlaps anything else.
Status check_memory(const KdaRecurrenceArgs& args) {
  const NamedView q = named("q", args.q);
  const NamedView state = named("state", args.state);
  const NamedView output = named("output", args.output);
  const kda::Views read = {q,
                           named("k", args.k),
                           named("v", args.v),
                           named("raw_gate", args.raw_gate),
                           named("raw_beta", args.raw_beta),
                           named("A_log", args.A_log),
                           named("dt_bias", args.dt_bias),
                           named("offsets", args.offsets),
                           named("state_indices", args.state_indices)};
  SILT_TRY(kda::check_one_device(q, read));
  SILT_TRY(kda::check_one_device(q, {state, output}));
  return kda::check_written_alone({output, state}, read);
}

}  // namespace

Status check(const KdaRecurrenceArgs& args, KdaRecurrenceProblem* problem) {
  KdaRecurrenceProblem made;
  SILT_TRY(read_sizes(args, &made));
  SILT_TRY(check_shapes(args, made));
  SILT_TRY(kda::check_gate_rule(kOp, args.safe_gate, args.lower_bound));
  SILT_TRY(kda::check_null_slot(kOp, args.null_slot));
  SILT_TRY(check_memory(args));
  if (made.offsets) SILT_TRY(kda::check_offsets(named("offsets", args.offsets), made.n, made.t));
  made.gate = args.safe_gate ? kda::Gate::safe : kda::Gate::softplus;
  made.lower_bound = args.safe_gate ? args.lower_bound : 0.0F;
  made.null_slot = args.null_slot;
  made.q_stride = args.q.stride[0];
  made.k_stride = args.k.stride[0];
  made.v_stride = args.v.stride[0];
  made.gate_stride = args.raw_gate.stride[0];
  made.beta_stride = args.raw_beta.stride[0];
  made.output_stride = args.output.stride[0];
  made.state_slot_stride = args.state.stride[0];
  made.align = kda::common_alignment({args.q, args.k, args.v, args.raw_gate, args.dt_bias, args.state, args.output});
  *problem = made;
  return {};
}

std::string KdaRecurrenceProblem::line() const {
  LinePrinter printer(kOp);
  KdaRecurrenceProblem copy = *this;
  copy.fields(printer);
  return printer.text();
}

Status KdaRecurrenceProblem::parse(const ProblemLine& line, KdaRecurrenceProblem* problem) {
  LineParser parser(line);
  problem->fields(parser);
  const KdaRecurrenceProblem& p = *problem;
  parser.demand(p.h >= 1, fmt::format("{}: h: has {}, needs h >= 1", kOp, p.h));
  kda::demand_sequences(parser, kOp, p.n, p.length, p.t);
  parser.demand(p.offsets || (p.t == p.n && p.lengths == kda::Lengths::even),
                fmt::format("{}: offsets: has 0, needs 1 but for seqs=Nx1 of even lengths", kOp));
  kda::demand_pool(parser, kOp, p.n, p.padded, p.null_slot, p.slots);
  kda::demand_gate(parser, kOp, p.gate, p.lower_bound);
  parser.demand(p.q_stride >= 0 && p.k_stride >= 0 && p.v_stride >= 0 && p.gate_stride >= 0 && p.beta_stride >= 0,
                fmt::format("{}: strides: have q {}, k {}, v {}, gate {}, beta {}, need at least 0", kOp, p.q_stride,
                            p.k_stride, p.v_stride, p.gate_stride, p.beta_stride));
  parser.demand(p.output_stride >= p.p() && p.state_slot_stride >= p.p() * kda::kDim,
                fmt::format("{}: strides: have output {}, state_slot {}, need at least {}, {}", kOp, p.output_stride,
                            p.state_slot_stride, p.p(), p.p() * kda::kDim));
  kda::demand_align(parser, kOp, p.align, std::max({size_of(p.qkv), size_of(p.dtype), size_of(p.output)}));
  return parser.finish();
}

}  // namespace silt
