// attn_res_partials: views to a checked problem.
#include "attn_res/two_phase/problem.hpp"
#include "core/check_view.hpp"
#include "core/status.hpp"

namespace silt {
namespace {

constexpr std::string_view kOp = "attn_res_partials";

NamedView named(std::string_view name, const ConstTensorView& view) { return {kOp, name, view}; }

/// [Q, D] weights: inner stride 1, rows that do not overlap.
Status check_weights(const NamedView& tensor, int64_t q, int64_t d) {
  SILT_TRY(check_tensor(tensor, {DType::bf16}, {q, d}));
  SILT_TRY(check_contiguous_from(tensor, 1));
  return check_stride_at_least(tensor, 0, d);
}

/// [Q, T, inner] that is written: inner stride 1, rows that share no memory.
Status check_written(const NamedView& tensor, DType dtype, int64_t q, int64_t t, int64_t inner) {
  SILT_TRY(check_tensor(tensor, {dtype}, {q, t, inner}));
  SILT_TRY(check_contiguous_from(tensor, 2));
  return check_no_self_overlap(tensor);
}

Status check_numbers(const AttnResPartialsArgs& args, int64_t slots) {
  if (args.num_blocks < 1 || args.num_blocks > slots) {
    return invalid("{}: num_blocks: has {}, needs 1..{} (slots of blocks)", kOp, args.num_blocks, slots);
  }
  if (args.stable_blocks < -1 || args.stable_blocks > args.num_blocks) {
    return invalid("{}: stable_blocks: has {}, needs -1..{} (num_blocks)", kOp, args.stable_blocks, args.num_blocks);
  }
  return check_epsilon(kOp, "eps", args.eps);
}

}  // namespace

Status check(const AttnResPartialsArgs& args, AttnResPartialsProblem* problem) {
  const NamedView blocks = named("blocks", args.blocks);
  if (args.blocks.rank != 3) {
    return invalid("{}: blocks: shape: has {}, needs [T, R, D]", kOp, shape_text(args.blocks));
  }
  const int64_t t = args.blocks.shape[0];
  const int64_t slots = args.blocks.shape[1];
  const int64_t d = args.blocks.shape[2];
  if (t < 0 || slots < 1 || d < 1) {
    return invalid("{}: blocks: shape: has {}, needs T >= 0, R >= 1 and D >= 1", kOp, shape_text(args.blocks));
  }
  const DType dtype = args.blocks.dtype;
  if (dtype != DType::bf16 && dtype != DType::f32) {
    return invalid("{}: blocks: dtype: has {}, needs bf16 or f32", kOp, to_string(dtype));
  }
  SILT_TRY(check_tensor(blocks, {dtype}, {t, slots, d}));
  SILT_TRY(check_contiguous_from(blocks, 2));
  SILT_TRY(check_no_self_overlap(blocks));
  SILT_TRY(check_numbers(args, slots));

  if (args.norm_weight.rank != 2) {
    return invalid("{}: norm_weight: shape: has {}, needs [Q, {}]", kOp, shape_text(args.norm_weight), d);
  }
  const int64_t q = args.norm_weight.shape[0];
  if (q < 1 || q > kAttnResMostQueries) {
    return invalid("{}: norm_weight: shape: has {} queries, needs 1..{}", kOp, q, kAttnResMostQueries);
  }
  SILT_TRY(check_weights(named("norm_weight", args.norm_weight), q, d));
  SILT_TRY(check_weights(named("qk_weight", args.qk_weight), q, d));
  const NamedView statistics = named("statistics", args.statistics);
  const NamedView mix = named("mix", args.mix);
  SILT_TRY(check_written(statistics, DType::f32, q, t, 2));
  const bool half = dtype == DType::bf16 && args.mix.present() && args.mix.dtype == DType::bf16;
  const DType partial = half ? DType::bf16 : DType::f32;
  if (dtype == DType::bf16 && args.mix.present() && args.mix.dtype != partial) {
    return invalid("{}: mix: dtype: has {}, needs bf16 or f32", kOp, to_string(args.mix.dtype));
  }
  SILT_TRY(check_written(mix, partial, q, t, d));

  const NamedView inputs[] = {blocks, named("norm_weight", args.norm_weight), named("qk_weight", args.qk_weight)};
  for (const NamedView& other : {inputs[1], inputs[2], statistics, mix}) SILT_TRY(check_same_device(blocks, other));
  SILT_TRY(check_disjoint(mix, statistics));
  for (const NamedView& input : inputs) {
    SILT_TRY(check_disjoint(statistics, input));
    SILT_TRY(check_disjoint(mix, input));
  }

  AttnResPartialsProblem made;
  made.t = t;
  made.q = q;
  made.n = args.num_blocks;
  made.d = d;
  made.dtype = dtype;
  made.partial = partial;
  made.slots = slots;
  made.block_token_stride = args.blocks.stride[0];
  made.block_slot_stride = args.blocks.stride[1];
  made.norm_weight_stride = args.norm_weight.stride[0];
  made.qk_weight_stride = args.qk_weight.stride[0];
  made.statistics_query_stride = args.statistics.stride[0];
  made.statistics_token_stride = args.statistics.stride[1];
  made.mix_query_stride = args.mix.stride[0];
  made.mix_token_stride = args.mix.stride[1];
  made.stable = args.stable_blocks;
  for (const ConstTensorView& view : {args.blocks, args.norm_weight, args.qk_weight, ConstTensorView(args.mix)}) {
    made.align = std::min(made.align, alignment_of(view, 16));
  }
  *problem = made;
  return {};
}

std::string AttnResPartialsProblem::line() const {
  LinePrinter printer(kOp);
  AttnResPartialsProblem copy = *this;
  copy.fields(printer);
  return printer.text();
}

Status AttnResPartialsProblem::parse(const ProblemLine& line, AttnResPartialsProblem* problem) {
  LineParser parser(line);
  problem->fields(parser);
  const AttnResPartialsProblem& p = *problem;
  parser.demand(p.t >= 0 && p.n >= 1 && p.d >= 1,
                fmt::format("{}: t, n, d: has {}, {}, {}, needs t >= 0, n >= 1, d >= 1", kOp, p.t, p.n, p.d));
  parser.demand(p.q >= 1 && p.q <= kAttnResMostQueries,
                fmt::format("{}: q: has {}, needs 1..{}", kOp, p.q, kAttnResMostQueries));
  parser.demand(p.dtype == DType::bf16 || p.partial == DType::f32,
                fmt::format("{}: partial: has bf16, needs f32 (dtype is f32)", kOp));
  parser.demand(p.slots >= p.n, fmt::format("{}: r: has {}, needs at least {}", kOp, p.slots, p.n));
  parser.demand(p.norm_weight_stride >= p.d && p.qk_weight_stride >= p.d,
                fmt::format("{}: norm_stride, qk_stride: have {}, {}, need at least d = {}", kOp, p.norm_weight_stride,
                            p.qk_weight_stride, p.d));
  parser.demand(p.stable >= -1 && p.stable <= p.n, fmt::format("{}: stable: has {}, needs -1..{}", kOp, p.stable, p.n));
  parser.demand(p.align == 2 || p.align == 4 || p.align == 8 || p.align == 16,
                fmt::format("{}: align: has {}, needs 2, 4, 8 or 16", kOp, p.align));
  return parser.finish();
}

}  // namespace silt
