// attn_res_merge: views to a checked problem.
#include "attn_res/two_phase/problem.hpp"
#include "core/check_view.hpp"
#include "core/status.hpp"

namespace silt {
namespace {

constexpr std::string_view kOp = "attn_res_merge";

NamedView named(std::string_view name, const ConstTensorView& view) { return {kOp, name, view}; }

/// [T, columns]: inner stride 1, rows that do not overlap.
Status check_rows(const NamedView& tensor, DType dtype, int64_t t, int64_t columns) {
  SILT_TRY(check_tensor(tensor, {dtype}, {t, columns}));
  SILT_TRY(check_contiguous_from(tensor, 1));
  return check_stride_at_least(tensor, 0, columns);
}

Status check_weight(const NamedView& tensor, int64_t d) {
  SILT_TRY(check_tensor(tensor, {DType::bf16}, {d}));
  return check_contiguous_from(tensor, 0);
}

Status check_memory(const AttnResMergeArgs& args) {
  const NamedView prefix = named("prefix", args.prefix);
  const NamedView slot = named("slot", args.slot);
  const NamedView output = named("output", args.output);
  const NamedView inputs[] = {named("delta", args.delta),
                              named("statistics", args.statistics),
                              named("mix", args.mix),
                              named("norm_weight", args.norm_weight),
                              named("qk_weight", args.qk_weight),
                              named("output_norm_weight", args.output_norm_weight)};
  for (const NamedView& other : inputs) SILT_TRY(check_same_device(prefix, other));
  SILT_TRY(check_same_device(prefix, slot));
  SILT_TRY(check_same_device(prefix, output));
  SILT_TRY(check_disjoint(output, prefix));
  SILT_TRY(check_disjoint(output, slot));
  SILT_TRY(check_disjoint(prefix, slot));
  for (const NamedView& input : inputs) {
    SILT_TRY(check_disjoint(output, input));
    SILT_TRY(check_disjoint(prefix, input));
    SILT_TRY(check_disjoint(slot, input));
  }
  return {};
}

}  // namespace

Status check(const AttnResMergeArgs& args, AttnResMergeProblem* problem) {
  if (args.prefix.rank != 2) {
    return invalid("{}: prefix: shape: has {}, needs [T, D]", kOp, shape_text(args.prefix));
  }
  const int64_t t = args.prefix.shape[0];
  const int64_t d = args.prefix.shape[1];
  if (t < 0 || d < 1) return invalid("{}: prefix: shape: has [{}, {}], needs T >= 0 and D >= 1", kOp, t, d);
  const DType dtype = args.prefix.dtype;
  if (dtype != DType::bf16 && dtype != DType::f32) {
    return invalid("{}: prefix: dtype: has {}, needs bf16 or f32", kOp, to_string(dtype));
  }
  SILT_TRY(check_rows(named("prefix", args.prefix), dtype, t, d));
  SILT_TRY(check_rows(named("output", args.output), dtype, t, d));
  if (args.delta.present()) SILT_TRY(check_rows(named("delta", args.delta), dtype, t, d));
  if (args.slot.present()) SILT_TRY(check_rows(named("slot", args.slot), dtype, t, d));
  SILT_TRY(check_rows(named("statistics", args.statistics), DType::f32, t, 2));
  const bool half = dtype == DType::bf16 && args.mix.present() && args.mix.dtype == DType::bf16;
  const DType partial = half ? DType::bf16 : DType::f32;
  if (dtype == DType::bf16 && args.mix.present() && args.mix.dtype != partial) {
    return invalid("{}: mix: dtype: has {}, needs bf16 or f32", kOp, to_string(args.mix.dtype));
  }
  SILT_TRY(check_rows(named("mix", args.mix), partial, t, d));
  SILT_TRY(check_weight(named("norm_weight", args.norm_weight), d));
  SILT_TRY(check_weight(named("qk_weight", args.qk_weight), d));
  const bool norm = args.output_norm_weight.present();
  if (norm) SILT_TRY(check_weight(named("output_norm_weight", args.output_norm_weight), d));
  SILT_TRY(check_epsilon(kOp, "eps", args.eps));
  SILT_TRY(check_epsilon(kOp, "output_norm_eps", args.output_norm_eps));
  SILT_TRY(check_memory(args));

  AttnResMergeProblem made;
  made.t = t;
  made.d = d;
  made.delta = args.delta.present();
  made.norm = norm;
  made.write = args.slot.present();
  made.dtype = dtype;
  made.partial = partial;
  made.prefix_stride = args.prefix.stride[0];
  made.delta_stride = made.delta ? args.delta.stride[0] : 0;
  made.statistics_stride = args.statistics.stride[0];
  made.mix_stride = args.mix.stride[0];
  made.slot_stride = made.write ? args.slot.stride[0] : 0;
  made.output_stride = args.output.stride[0];
  made.stable = args.stable_partials;
  for (const ConstTensorView& view :
       {ConstTensorView(args.prefix), args.delta, args.mix, ConstTensorView(args.slot), ConstTensorView(args.output),
        args.norm_weight, args.qk_weight, args.output_norm_weight}) {
    made.align = std::min(made.align, alignment_of(view, 16));
  }
  *problem = made;
  return {};
}

std::string AttnResMergeProblem::line() const {
  LinePrinter printer(kOp);
  AttnResMergeProblem copy = *this;
  copy.fields(printer);
  return printer.text();
}

Status AttnResMergeProblem::parse(const ProblemLine& line, AttnResMergeProblem* problem) {
  LineParser parser(line);
  problem->fields(parser);
  const AttnResMergeProblem& p = *problem;
  parser.demand(p.t >= 0 && p.d >= 1, fmt::format("{}: t, d: has {}, {}, needs t >= 0, d >= 1", kOp, p.t, p.d));
  parser.demand(p.dtype == DType::bf16 || p.partial == DType::f32,
                fmt::format("{}: partial: has bf16, needs f32 (dtype is f32)", kOp));
  parser.demand(p.prefix_stride >= p.d && p.output_stride >= p.d && p.mix_stride >= p.d &&
                    (!p.delta || p.delta_stride >= p.d) && (!p.write || p.slot_stride >= p.d),
                fmt::format("{}: strides: have prefix {}, delta {}, mix {}, slot {}, output {}, need at least d = {}",
                            kOp, p.prefix_stride, p.delta_stride, p.mix_stride, p.slot_stride, p.output_stride, p.d));
  parser.demand(p.statistics_stride >= 2,
                fmt::format("{}: statistics_stride: has {}, needs at least 2", kOp, p.statistics_stride));
  parser.demand(p.align == 2 || p.align == 4 || p.align == 8 || p.align == 16,
                fmt::format("{}: align: has {}, needs 2, 4, 8 or 16", kOp, p.align));
  return parser.finish();
}

}  // namespace silt
