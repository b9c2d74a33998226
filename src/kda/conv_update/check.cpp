// causal_conv1d_update: views to a checked problem.
#include <algorithm>

#include "core/check_view.hpp"
#include "core/status.hpp"
#include "kda/conv_update/problem.hpp"
#include "kda/shared/check_kda.hpp"

namespace silt {
namespace {

constexpr std::string_view kOp = "causal_conv1d_update";

NamedView named(std::string_view name, const ConstTensorView& view) { return {kOp, name, view}; }

Status check_shapes(const CausalConv1dUpdateArgs& args, CausalConv1dUpdateProblem* made) {
  const int64_t b = made->b;
  const int64_t n = made->n;
  const int64_t c = made->c;
  SILT_TRY(check_tensor(named("x", args.x), {DType::bf16, DType::f32}, {b, n, c}));
  SILT_TRY(check_contiguous_from(named("x", args.x), 2));
  SILT_TRY(kda::check_dense(named("weight", args.weight), DType::f32, {kda::kParts, kda::kTaps, c / kda::kParts}));
  made->bias = args.bias.present();
  if (made->bias) SILT_TRY(kda::check_dense(named("bias", args.bias), DType::f32, {c}));
  if (args.conv_state.rank != 3 || args.conv_state.shape[0] < 0) {
    return invalid("{}: conv_state: shape: has {}, needs [slots, {}, 3]", kOp, shape_text(args.conv_state), c);
  }
  made->slots = args.conv_state.shape[0];
  SILT_TRY(kda::check_conv_state(named("conv_state", args.conv_state), args.x.dtype, made->slots, c, &made->layout));
  SILT_TRY(kda::check_dense(named("state_indices", args.state_indices), DType::i32, {b}));
  const NamedView output = named("output", args.output);
  SILT_TRY(check_tensor(output, {DType::bf16, DType::f32}, {b, n, c}));
  SILT_TRY(check_contiguous_from(output, 2));
  return output.view.elements() == 0 ? Status() : check_no_self_overlap(output);
}

Status check_memory(const CausalConv1dUpdateArgs& args) {
  const NamedView x = named("x", args.x);
  const NamedView conv_state = named("conv_state", kda::slots_as_rows(args.conv_state));
  const NamedView output = named("output", args.output);
  const kda::Views read = {x, named("weight", args.weight), named("bias", args.bias),
                           named("state_indices", args.state_indices)};
  SILT_TRY(kda::check_one_device(x, read));
  SILT_TRY(kda::check_one_device(x, {conv_state, output}));
  return kda::check_written_alone({output, conv_state}, read);
}

}  // namespace

Status check(const CausalConv1dUpdateArgs& args, CausalConv1dUpdateProblem* problem) {
  if (args.x.rank != 3 || args.x.shape[0] < 0 || args.x.shape[1] < 0 || args.x.shape[2] < 1 ||
      args.x.shape[2] % kda::kParts != 0) {
    return invalid("{}: x: shape: has {}, needs [B, n, C], C a multiple of 3", kOp, shape_text(args.x));
  }
  CausalConv1dUpdateProblem made;
  made.b = args.x.shape[0];
  made.n = args.x.shape[1];
  made.c = args.x.shape[2];
  SILT_TRY(check_shapes(args, &made));
  SILT_TRY(kda::check_null_slot(kOp, args.null_slot));
  SILT_TRY(check_memory(args));
  made.dtype = args.x.dtype;
  made.output = args.output.dtype;
  made.null_slot = args.null_slot;
  made.x_stride = args.x.stride[0];
  made.x_token_stride = args.x.stride[1];
  made.output_stride = args.output.stride[0];
  made.output_token_stride = args.output.stride[1];
  made.conv_slot_stride = args.conv_state.stride[0];
  made.align =
      kda::common_alignment({args.x, args.weight, args.bias, kda::slots_as_rows(args.conv_state), args.output});
  *problem = made;
  return {};
}

std::string CausalConv1dUpdateProblem::line() const {
  LinePrinter printer(kOp);
  CausalConv1dUpdateProblem copy = *this;
  copy.fields(printer);
  return printer.text();
}

Status CausalConv1dUpdateProblem::parse(const ProblemLine& line, CausalConv1dUpdateProblem* problem) {
  LineParser parser(line);
  problem->fields(parser);
  const CausalConv1dUpdateProblem& p = *problem;
  parser.demand(
      p.b >= 0 && p.n >= 0 && p.c >= 1 && p.c % kda::kParts == 0,
      fmt::format("{}: b, n, c: has {}, {}, {}, needs b >= 0, n >= 0, c a multiple of 3", kOp, p.b, p.n, p.c));
  kda::demand_pool(parser, kOp, p.b, p.padded, p.null_slot, p.slots);
  parser.demand(
      p.x_stride >= 0 && p.x_token_stride >= 0 && p.output_token_stride >= p.c &&
          p.output_stride >= (p.n - 1) * p.output_token_stride + p.c && p.conv_slot_stride >= kda::kHistory * p.c,
      fmt::format("{}: strides: have x {}, {}, output {}, {}, conv_slot {}, need rows that do not overlap", kOp,
                  p.x_stride, p.x_token_stride, p.output_stride, p.output_token_stride, p.conv_slot_stride));
  kda::demand_align(parser, kOp, p.align, std::max(size_of(p.dtype), size_of(p.output)));
  return parser.finish();
}

}  // namespace silt
