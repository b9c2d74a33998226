// attn_res: views to a checked problem.
#include <cmath>

#include "attn_res/problem.hpp"
#include "core/check_view.hpp"
#include "core/status.hpp"

namespace silt {
namespace {

constexpr std::string_view kOp = "attn_res";

NamedView named(std::string_view name, const ConstTensorView& view) { return {kOp, name, view}; }

/// [T, D] activations: inner stride 1, rows that do not overlap.
Status check_rows(const NamedView& tensor, DType dtype, int64_t t, int64_t d) {
  SILT_TRY(check_tensor(tensor, {dtype}, {t, d}));
  SILT_TRY(check_contiguous_from(tensor, 1));
  return check_stride_at_least(tensor, 0, d);
}

Status check_weight(const NamedView& tensor, int64_t d) {
  SILT_TRY(check_tensor(tensor, {DType::bf16}, {d}));
  return check_contiguous_from(tensor, 0);
}

Status check_numbers(const AttnResArgs& args, int64_t slots) {
  if (args.num_blocks < 0 || args.num_blocks > slots) {
    return invalid("{}: num_blocks: has {}, needs 0..{} (slots of blocks)", kOp, args.num_blocks, slots);
  }
  if (args.block_write_idx < -1 || args.block_write_idx >= slots) {
    return invalid("{}: block_write_idx: has {}, needs -1..{} (slots of blocks)", kOp, args.block_write_idx, slots - 1);
  }
  if (args.block_write_idx >= 0 && args.block_write_idx < args.num_blocks) {
    return invalid("{}: block_write_idx: has {}, needs at least num_blocks {} (it would overwrite a source)", kOp,
                   args.block_write_idx, args.num_blocks);
  }
  if (args.stable_blocks < -1 || args.stable_blocks > args.num_blocks) {
    return invalid("{}: stable_blocks: has {}, needs -1..{} (num_blocks)", kOp, args.stable_blocks, args.num_blocks);
  }
  SILT_TRY(check_epsilon(kOp, "eps", args.eps));
  return check_epsilon(kOp, "output_norm_eps", args.output_norm_eps);
}

Status check_aliasing(const AttnResArgs& args) {
  const NamedView prefix = named("prefix", args.prefix);
  const NamedView delta = named("delta", args.delta);
  const NamedView blocks = named("blocks", args.blocks);
  const NamedView output = named("output", args.output);
  const NamedView weights[] = {named("norm_weight", args.norm_weight), named("qk_weight", args.qk_weight),
                               named("output_norm_weight", args.output_norm_weight)};
  SILT_TRY(check_disjoint(output, prefix));
  SILT_TRY(check_disjoint(output, delta));
  SILT_TRY(check_disjoint(output, blocks));
  SILT_TRY(check_disjoint(prefix, delta));
  SILT_TRY(check_disjoint(prefix, blocks));
  SILT_TRY(check_disjoint(blocks, delta));
  for (const NamedView& weight : weights) {
    SILT_TRY(check_disjoint(output, weight));
    SILT_TRY(check_disjoint(prefix, weight));
    SILT_TRY(check_disjoint(blocks, weight));
  }
  return {};
}

}  // namespace

Status check(const AttnResArgs& args, AttnResProblem* problem) {
  const NamedView prefix = named("prefix", args.prefix);
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
  SILT_TRY(check_rows(prefix, dtype, t, d));
  SILT_TRY(check_rows(named("output", args.output), dtype, t, d));
  if (args.delta.present()) SILT_TRY(check_rows(named("delta", args.delta), dtype, t, d));

  const NamedView blocks = named("blocks", args.blocks);
  const int64_t slots = args.blocks.present() ? args.blocks.shape[1] : 0;
  if (args.blocks.present()) {
    if (args.blocks.rank != 3) {
      return invalid("{}: blocks: shape: has {}, needs [{}, R, {}]", kOp, shape_text(args.blocks), t, d);
    }
    SILT_TRY(check_tensor(blocks, {dtype}, {t, slots, d}));
    SILT_TRY(check_contiguous_from(blocks, 2));
    // The message of the contract: rows of two slots, or of two tokens, must not share memory.
    SILT_TRY(check_no_self_overlap(blocks));
  }
  SILT_TRY(check_numbers(args, slots));
  const bool weights_needed = args.num_blocks > 0;
  if (weights_needed || args.norm_weight.present()) SILT_TRY(check_weight(named("norm_weight", args.norm_weight), d));
  if (weights_needed || args.qk_weight.present()) SILT_TRY(check_weight(named("qk_weight", args.qk_weight), d));
  const bool norm = args.output_norm_weight.present();
  if (norm) SILT_TRY(check_weight(named("output_norm_weight", args.output_norm_weight), d));

  for (const NamedView& other :
       {named("delta", args.delta), blocks, named("norm_weight", args.norm_weight), named("qk_weight", args.qk_weight),
        named("output_norm_weight", args.output_norm_weight), named("output", args.output)}) {
    SILT_TRY(check_same_device(prefix, other));
  }
  SILT_TRY(check_aliasing(args));

  AttnResProblem made;
  made.t = t;
  made.n = args.num_blocks;
  made.d = d;
  made.delta = args.delta.present();
  made.norm = norm;
  made.write = args.block_write_idx;
  made.dtype = dtype;
  made.slots = slots;
  made.prefix_stride = args.prefix.stride[0];
  made.delta_stride = made.delta ? args.delta.stride[0] : 0;
  made.block_token_stride = args.blocks.stride[0];
  made.block_slot_stride = args.blocks.stride[1];
  made.output_stride = args.output.stride[0];
  made.stable = args.stable_blocks;
  made.align = 16;
  for (const ConstTensorView& view :
       {ConstTensorView(args.prefix), args.delta, ConstTensorView(args.blocks), ConstTensorView(args.output),
        args.norm_weight, args.qk_weight, args.output_norm_weight}) {
    made.align = std::min(made.align, alignment_of(view, 16));
  }
  *problem = made;
  return {};
}

std::string AttnResProblem::line() const {
  LinePrinter printer("attn_res");
  AttnResProblem copy = *this;
  copy.fields(printer);
  return printer.text();
}

Status AttnResProblem::parse(const ProblemLine& line, AttnResProblem* problem) {
  LineParser parser(line);
  problem->fields(parser);
  const AttnResProblem& p = *problem;
  parser.demand(p.t >= 0 && p.d >= 1 && p.n >= 0,
                fmt::format("attn_res: t, n, d: has {}, {}, {}, needs t >= 0, n >= 0, d >= 1", p.t, p.n, p.d));
  parser.demand(p.write == -1 || p.write >= p.n,
                fmt::format("attn_res: write: has {}, needs -1 or at least n = {}", p.write, p.n));
  parser.demand(p.slots >= p.least_slots(),
                fmt::format("attn_res: r: has {}, needs at least {}", p.slots, p.least_slots()));
  parser.demand(p.prefix_stride >= p.d && p.output_stride >= p.d && (!p.delta || p.delta_stride >= p.d),
                fmt::format("attn_res: strides: have prefix {}, delta {}, output {}, need at least d = {}",
                            p.prefix_stride, p.delta_stride, p.output_stride, p.d));
  parser.demand(p.stable >= -1 && p.stable <= p.n,
                fmt::format("attn_res: stable: has {}, needs -1..{}", p.stable, p.n));
  parser.demand(p.align == 2 || p.align == 4 || p.align == 8 || p.align == 16,
                fmt::format("attn_res: align: has {}, needs 2, 4, 8 or 16", p.align));
  return parser.finish();
}

}  // namespace silt
