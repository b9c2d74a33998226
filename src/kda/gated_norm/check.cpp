// rms_norm_gated: views to a checked problem.
#include <algorithm>

#include "core/check_view.hpp"
#include "core/status.hpp"
#include "kda/gated_norm/problem.hpp"
#include "kda/shared/check_kda.hpp"

namespace silt {
namespace {

constexpr std::string_view kOp = "rms_norm_gated";

NamedView named(std::string_view name, const ConstTensorView& view) { return {kOp, name, view}; }

}  // namespace

Status check(const RmsNormGatedArgs& args, RmsNormGatedProblem* problem) {
  if (args.x.rank != 3 || args.x.shape[0] < 0 || args.x.shape[1] < 1) {
    return invalid("{}: x: shape: has {}, needs [T, H, 128]", kOp, shape_text(args.x));
  }
  RmsNormGatedProblem made;
  made.t = args.x.shape[0];
  made.h = args.x.shape[1];
  const NamedView x = named("x", args.x);
  const NamedView gate = named("gate", args.gate);
  const NamedView weight = named("weight", args.weight);
  const NamedView output = named("output", args.output);
  SILT_TRY(kda::check_rows(x, {DType::bf16, DType::f32}, {made.t, made.h, kda::kDim}));
  SILT_TRY(kda::check_rows(gate, {DType::bf16, DType::f32}, {made.t, made.h, kda::kDim}));
  SILT_TRY(kda::check_dense(weight, DType::f32, {kda::kDim}));
  SILT_TRY(kda::check_written_rows(output, {DType::bf16, DType::f32}, {made.t, made.h, kda::kDim}));
  SILT_TRY(check_epsilon(kOp, "eps", args.eps));
  if (args.activation != GateActivation::sigmoid && args.activation != GateActivation::silu) {
    return invalid("{}: activation: has {}, needs 0 (sigmoid) or 1 (silu)", kOp, static_cast<int>(args.activation));
  }
  SILT_TRY(kda::check_one_device(x, {gate, weight, output}));
  SILT_TRY(kda::check_written_alone({output}, {x, gate, weight}));
  made.x = args.x.dtype;
  made.gate = args.gate.dtype;
  made.output = args.output.dtype;
  made.activation = args.activation;
  made.x_stride = args.x.stride[0];
  made.gate_stride = args.gate.stride[0];
  made.output_stride = args.output.stride[0];
  made.align = kda::common_alignment({args.x, args.gate, args.weight, args.output});
  *problem = made;
  return {};
}

std::string RmsNormGatedProblem::line() const {
  LinePrinter printer(kOp);
  RmsNormGatedProblem copy = *this;
  copy.fields(printer);
  return printer.text();
}

Status RmsNormGatedProblem::parse(const ProblemLine& line, RmsNormGatedProblem* problem) {
  LineParser parser(line);
  problem->fields(parser);
  const RmsNormGatedProblem& p = *problem;
  parser.demand(p.t >= 0 && p.h >= 1, fmt::format("{}: t, h: has {}, {}, needs t >= 0, h >= 1", kOp, p.t, p.h));
  parser.demand(p.x_stride >= 0 && p.gate_stride >= 0 && p.output_stride >= p.p(),
                fmt::format("{}: strides: have x {}, gate {}, output {}, need at least 0, 0, {}", kOp, p.x_stride,
                            p.gate_stride, p.output_stride, p.p()));
  kda::demand_align(parser, kOp, p.align, std::max({size_of(p.x), size_of(p.gate), size_of(p.output)}));
  return parser.finish();
}

}  // namespace silt
