// KDA: one fused projection, the low-rank gates, then the fused decode step or prefill, then the output projection.
#include "silt/kda_decode.hpp"
#include "silt/kda_prefill.hpp"

#include "core/status.hpp"
#include "model/decoder.hpp"
#include "model/glue.hpp"

namespace silt {
namespace {

/// What kda_decode and kda_prefill share; both structs name their arguments alike.
template <class Args>
void fill(const LayerContext& context, const KdaWeights& weights, SlotPools::Kda& pool, int64_t slots, Args* args) {
  const KdaColumns& columns = weights.columns;
  const int64_t heads = columns.heads;
  const int64_t channels = columns.channels;
  Workspace& work = context.work;
  const TensorView projection = work.projection.view(context.rows(), columns.all());
  const DType act = projection.dtype;

  args->x = columns_of(projection, 0, 3 * channels);
  args->conv_weight = view(weights.conv_weight.data(), {3, kConvTaps, channels});
  args->conv_state = detail::make_view<TensorView>(pool.history.data(), act, {slots, 3 * channels, kConvTaps - 1},
                                                   {(kConvTaps - 1) * 3 * channels, 1, 3 * channels}, Device{});
  args->raw_gate = as_heads(work.gate.view(context.rows()), heads);
  args->raw_beta = columns_of(projection, columns.beta(), heads);
  args->A_log = view(weights.a_log.data(), {heads});
  args->dt_bias = view(weights.dt_bias.data(), {heads, kKdaWidth});
  args->state_indices = view(context.pass.slots.data(), {static_cast<int64_t>(context.pass.slots.size())});
  args->state = view(pool.state.as<float>(), {slots, heads, kKdaWidth, kKdaWidth});
  args->safe_gate = context.config.kda.safe_gate;
  args->lower_bound = context.config.kda.lower_bound;
  args->output_gate = as_heads(columns.full_rank_gate ? columns_of(projection, columns.output_gate(), channels)
                                                      : work.output_gate.view(context.rows()),
                               heads);
  args->norm_weight = view(weights.norm.data(), {kKdaWidth});
  args->norm_eps = context.config.eps;
  args->output = as_heads(work.mixed.view(context.rows(), channels), heads);
  args->null_slot = -1;  // every pool slot is a sequence's; a pass has no padding rows
}

template <class Args>
void trace_kda(const LayerContext& context, const Args& args) {
  const Trace& trace = context.trace;
  if (!trace.on()) return;
  trace.emit("kda_conv_in", args.x);
  trace.emit("kda_g1", args.raw_gate);
  trace.emit("kda_g2", args.output_gate);
  trace.emit("kda_gated", args.output);
  for (const int32_t slot : context.pass.slots) {
    ConstTensorView history = args.conv_state;
    history.data = static_cast<const std::byte*>(history.data) +
                   static_cast<size_t>(slot * history.stride[0]) * size_of(history.dtype);
    history.rank = 2;  // [3, 3P], as the golden tensors
    history.shape = {args.conv_state.shape[2], args.conv_state.shape[1]};
    history.stride = {args.conv_state.stride[2], args.conv_state.stride[1]};
    trace.emit("kda_conv_state", history);
    const int64_t heads = args.state.shape[1];
    const float* state = static_cast<const float*>(args.state.data) + slot * args.state.stride[0];
    trace.emit("kda_recurrent_state", view(state, {heads, kKdaWidth, kKdaWidth}));
  }
}

}  // namespace

Status run_kda(const LayerContext& context, const KdaWeights& weights, SlotPools::Kda& pool, int64_t slots) {
  Workspace& work = context.work;
  const int64_t rows = context.rows();
  const KdaColumns& columns = weights.columns;
  const TensorView projection = work.projection.view(rows, columns.all());
  SILT_TRY(multiply({&weights.projection, work.hidden.view(rows), projection}, context.threads()));
  const Product gates[] = {{&weights.gate_b, columns_of(projection, columns.gate_a(), kKdaWidth), work.gate.view(rows)},
                           {&weights.output_gate_b, columns_of(projection, columns.output_gate_a(), kKdaWidth),
                            work.output_gate.view(rows)}};
  SILT_TRY(multiply(std::span(gates, columns.full_rank_gate ? 1 : 2), context.threads()));

  if (context.pass.decode()) {
    KdaDecodeArgs args;
    fill(context, weights, pool, slots, &args);
    SILT_TRY(kda_decode(args, context.launch));
    trace_kda(context, args);
  } else {
    KdaPrefillArgs args;
    fill(context, weights, pool, slots, &args);
    const auto sequences = static_cast<int64_t>(context.pass.segments.size());
    args.offsets = view(context.pass.offsets.data(), {sequences + 1});
    args.has_initial_state = view(context.pass.continued.data(), {sequences});
    SILT_TRY(kda_prefill(args, context.launch));
    trace_kda(context, args);
  }
  return multiply({&weights.o, work.mixed.view(rows, columns.channels), work.attended.view(rows)}, context.threads());
}

}  // namespace silt
