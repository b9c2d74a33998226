// Every operator under the names and with the defaults of its C++ structure: `Args{}.field` is the default of an
// argument here, so that there is one place where a default stands.
#include "operators.hpp"

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "silt/attn_res.hpp"
#include "silt/attn_res_two_phase.hpp"
#include "silt/causal_conv1d_update.hpp"
#include "silt/kda_decode.hpp"
#include "silt/kda_prefill.hpp"
#include "silt/kda_recurrence.hpp"
#include "silt/rms_norm_gated.hpp"

#include "arguments.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace silt::python {
namespace {

using Object = nb::handle;
using Text = std::optional<std::string_view>;
using Stream = std::optional<uintptr_t>;

GateActivation activation_from(std::string_view text) {
  if (text == "sigmoid") return GateActivation::sigmoid;
  if (text == "silu") return GateActivation::silu;
  throw nb::value_error(fmt::format("rms_norm_gated: activation: has \"{}\", needs sigmoid or silu", text).c_str());
}

void attn_res(Object prefix, Object blocks, Object norm_weight, Object qk_weight, Object output, Object delta,
              Object output_norm_weight, int64_t num_blocks, int64_t block_write_idx, float eps, float output_norm_eps,
              int64_t stable_blocks, Stream stream, int32_t threads, Text pdl, Text kernel, Text prefer, bool debug) {
  Arguments in("attn_res");
  AttnResArgs args;
  args.prefix = delta.is_none() ? in.only_read("prefix", prefix) : in.written("prefix", prefix);
  args.delta = in.read("delta", delta);
  args.blocks = block_write_idx < 0 ? in.only_read("blocks", blocks) : in.written("blocks", blocks);
  args.norm_weight = in.read("norm_weight", norm_weight);
  args.qk_weight = in.read("qk_weight", qk_weight);
  args.output_norm_weight = in.read("output_norm_weight", output_norm_weight);
  args.num_blocks = num_blocks;
  args.block_write_idx = block_write_idx;
  args.eps = eps;
  args.output_norm_eps = output_norm_eps;
  args.output = in.written("output", output);
  args.stable_blocks = stable_blocks;
  in.run(silt::attn_res, args, {stream, threads, pdl, kernel, prefer, debug});
}

void attn_res_partials(Object blocks, Object norm_weight, Object qk_weight, Object statistics, Object mix,
                       int64_t num_blocks, float eps, int64_t stable_blocks, Stream stream, int32_t threads, Text pdl,
                       Text kernel, Text prefer, bool debug) {
  Arguments in("attn_res_partials");
  AttnResPartialsArgs args;
  args.blocks = in.read("blocks", blocks);
  args.norm_weight = in.read("norm_weight", norm_weight);
  args.qk_weight = in.read("qk_weight", qk_weight);
  args.num_blocks = num_blocks;
  args.eps = eps;
  args.statistics = in.written("statistics", statistics);
  args.mix = in.written("mix", mix);
  args.stable_blocks = stable_blocks;
  in.run(silt::attn_res_partials, args, {stream, threads, pdl, kernel, prefer, debug});
}

void attn_res_merge(Object prefix, Object statistics, Object mix, Object norm_weight, Object qk_weight, Object output,
                    Object delta, Object slot, Object output_norm_weight, float eps, float output_norm_eps,
                    bool stable_partials, Stream stream, int32_t threads, Text pdl, Text kernel, Text prefer,
                    bool debug) {
  Arguments in("attn_res_merge");
  AttnResMergeArgs args;
  args.prefix = delta.is_none() ? in.only_read("prefix", prefix) : in.written("prefix", prefix);
  args.delta = in.read("delta", delta);
  args.statistics = in.read("statistics", statistics);
  args.mix = in.read("mix", mix);
  args.slot = in.written("slot", slot);
  args.norm_weight = in.read("norm_weight", norm_weight);
  args.qk_weight = in.read("qk_weight", qk_weight);
  args.output_norm_weight = in.read("output_norm_weight", output_norm_weight);
  args.eps = eps;
  args.output_norm_eps = output_norm_eps;
  args.output = in.written("output", output);
  args.stable_partials = stable_partials;
  in.run(silt::attn_res_merge, args, {stream, threads, pdl, kernel, prefer, debug});
}

void kda_decode(Object x, Object conv_weight, Object conv_state, Object raw_gate, Object raw_beta, Object A_log,
                Object dt_bias, Object state_indices, Object state, Object output, Object conv_bias, bool safe_gate,
                float lower_bound, Object output_gate, Object norm_weight, float norm_eps, int32_t null_slot,
                Stream stream, int32_t threads, Text pdl, Text kernel, Text prefer, bool debug) {
  Arguments in("kda_decode");
  KdaDecodeArgs args;
  args.x = in.read("x", x);
  args.conv_weight = in.read("conv_weight", conv_weight);
  args.conv_bias = in.read("conv_bias", conv_bias);
  args.conv_state = in.written("conv_state", conv_state);
  args.raw_gate = in.read("raw_gate", raw_gate);
  args.raw_beta = in.read("raw_beta", raw_beta);
  args.A_log = in.read("A_log", A_log);
  args.dt_bias = in.read("dt_bias", dt_bias);
  args.state_indices = in.read("state_indices", state_indices);
  args.state = in.written("state", state);
  args.safe_gate = safe_gate;
  args.lower_bound = lower_bound;
  args.output_gate = in.read("output_gate", output_gate);
  args.norm_weight = in.read("norm_weight", norm_weight);
  args.norm_eps = norm_eps;
  args.output = in.written("output", output);
  args.null_slot = null_slot;
  in.run(silt::kda_decode, args, {stream, threads, pdl, kernel, prefer, debug});
}

/// An engine's [1, B, ...] as [B, ...].
TensorView without_first_axis(TensorView view, int32_t rank) {
  if (view.rank != rank + 1 || view.shape[0] != 1) return view;
  std::shift_left(view.shape.begin(), view.shape.end(), 1);
  std::shift_left(view.stride.begin(), view.stride.end(), 1);
  view.rank = rank;
  return view;
}

/// An engine's [..., H * 128] as [..., H, 128], where `rank` axes are wanted.
TensorView with_heads(TensorView view, int64_t heads, int32_t rank) {
  const auto last = static_cast<size_t>(rank - 2);
  if (view.rank != rank - 1 || view.shape[last] != heads * 128) return view;
  view.shape[last + 1] = 128;
  view.stride[last + 1] = view.stride[last];
  view.shape[last] = heads;
  view.stride[last] *= 128;
  view.rank = rank;
  return view;
}

/// kda_decode with the arguments and the layouts of serving engines, for which nothing but views is made.
void fused_kda_decode(Object x, Object weight, Object bias, Object conv_state, Object raw_g, Object raw_beta,
                      Object A_log, Object dt_bias, Object state_indices, Object state, Object out,
                      std::optional<float> lower_bound, Object output_gate, Object norm_weight, float norm_eps,
                      Stream stream, int32_t threads, Text pdl, Text kernel, Text prefer, bool debug) {
  Arguments in("kda_decode");
  KdaDecodeArgs args;
  args.A_log = in.read("A_log", A_log);
  const int64_t heads = args.A_log.shape[0];
  const auto rows = [heads](const TensorView& view) { return with_heads(without_first_axis(view, 3), heads, 3); };
  args.x = in.read("x", x);
  args.conv_weight = in.read("weight", weight);
  args.conv_bias = in.read("bias", bias);
  args.conv_state = in.written("conv_state", conv_state);
  args.raw_gate = rows(in.only_read("raw_g", raw_g));
  args.raw_beta = without_first_axis(in.only_read("raw_beta", raw_beta), 2);
  args.dt_bias = with_heads(in.only_read("dt_bias", dt_bias), heads, 2);
  args.state_indices = in.read("state_indices", state_indices);
  args.state = in.written("state", state);
  args.safe_gate = lower_bound.has_value();
  if (lower_bound) args.lower_bound = *lower_bound;
  args.output_gate = rows(in.only_read("output_gate", output_gate));
  args.norm_weight = in.read("norm_weight", norm_weight);
  args.norm_eps = norm_eps;
  args.output = rows(in.written("out", out));
  in.run(silt::kda_decode, args, {stream, threads, pdl, kernel, prefer, debug});
}

void kda_prefill(Object x, Object conv_weight, Object conv_state, Object raw_gate, Object raw_beta, Object A_log,
                 Object dt_bias, Object offsets, Object state_indices, Object state, Object output, Object conv_bias,
                 Object has_initial_state, bool safe_gate, float lower_bound, Object output_gate, Object norm_weight,
                 float norm_eps, int32_t null_slot, Stream stream, int32_t threads, Text pdl, Text kernel, Text prefer,
                 bool debug) {
  Arguments in("kda_prefill");
  KdaPrefillArgs args;
  args.x = in.read("x", x);
  args.conv_weight = in.read("conv_weight", conv_weight);
  args.conv_bias = in.read("conv_bias", conv_bias);
  args.conv_state = in.written("conv_state", conv_state);
  args.raw_gate = in.read("raw_gate", raw_gate);
  args.raw_beta = in.read("raw_beta", raw_beta);
  args.A_log = in.read("A_log", A_log);
  args.dt_bias = in.read("dt_bias", dt_bias);
  args.offsets = in.read("offsets", offsets);
  args.state_indices = in.read("state_indices", state_indices);
  args.has_initial_state = in.read("has_initial_state", has_initial_state);
  args.state = in.written("state", state);
  args.safe_gate = safe_gate;
  args.lower_bound = lower_bound;
  args.output_gate = in.read("output_gate", output_gate);
  args.norm_weight = in.read("norm_weight", norm_weight);
  args.norm_eps = norm_eps;
  args.output = in.written("output", output);
  args.null_slot = null_slot;
  in.run(silt::kda_prefill, args, {stream, threads, pdl, kernel, prefer, debug});
}

void causal_conv1d_update(Object x, Object weight, Object conv_state, Object state_indices, Object output, Object bias,
                          int32_t null_slot, Stream stream, int32_t threads, Text pdl, Text kernel, Text prefer,
                          bool debug) {
  Arguments in("causal_conv1d_update");
  CausalConv1dUpdateArgs args;
  args.x = in.read("x", x);
  args.weight = in.read("weight", weight);
  args.bias = in.read("bias", bias);
  args.conv_state = in.written("conv_state", conv_state);
  args.state_indices = in.read("state_indices", state_indices);
  args.output = in.written("output", output);
  args.null_slot = null_slot;
  in.run(silt::causal_conv1d_update, args, {stream, threads, pdl, kernel, prefer, debug});
}

void kda_recurrence(Object q, Object k, Object v, Object raw_gate, Object raw_beta, Object A_log, Object dt_bias,
                    Object state_indices, Object state, Object output, Object offsets, Object accepted, bool safe_gate,
                    float lower_bound, int32_t null_slot, Stream stream, int32_t threads, Text pdl, Text kernel,
                    Text prefer, bool debug) {
  Arguments in("kda_recurrence");
  KdaRecurrenceArgs args;
  args.q = in.read("q", q);
  args.k = in.read("k", k);
  args.v = in.read("v", v);
  args.raw_gate = in.read("raw_gate", raw_gate);
  args.raw_beta = in.read("raw_beta", raw_beta);
  args.A_log = in.read("A_log", A_log);
  args.dt_bias = in.read("dt_bias", dt_bias);
  args.offsets = in.read("offsets", offsets);
  args.state_indices = in.read("state_indices", state_indices);
  args.accepted = in.read("accepted", accepted);
  args.state = in.written("state", state);
  args.safe_gate = safe_gate;
  args.lower_bound = lower_bound;
  args.output = in.written("output", output);
  args.null_slot = null_slot;
  in.run(silt::kda_recurrence, args, {stream, threads, pdl, kernel, prefer, debug});
}

void rms_norm_gated(Object x, Object gate, Object weight, Object output, float eps, std::string_view activation,
                    Stream stream, int32_t threads, Text pdl, Text kernel, Text prefer, bool debug) {
  Arguments in("rms_norm_gated");
  RmsNormGatedArgs args;
  args.x = in.read("x", x);
  args.gate = in.read("gate", gate);
  args.weight = in.read("weight", weight);
  args.eps = eps;
  args.activation = activation_from(activation);
  args.output = in.written("output", output);
  in.run(silt::rms_norm_gated, args, {stream, threads, pdl, kernel, prefer, debug});
}

/// An operator with the arguments that all of them end with.
template <class Function, class... Extra>
void add(nb::module_& module, const char* name, Function* function, const char* text, const Extra&... extra) {
  constexpr Launch launch;
  module.def(name, function, text, extra..., "stream"_a = nb::none(), "threads"_a = launch.threads,
             "pdl"_a = nb::none(), "kernel"_a = nb::none(), "prefer"_a = nb::none(), "debug"_a = launch.debug);
}

auto optional(const char* name) { return nb::arg(name) = nb::none(); }

void add_attn_res(nb::module_& module) {
  const AttnResArgs whole;
  add(module, "attn_res", attn_res, "Attention Residuals, in place: silt/attn_res.hpp.", "prefix"_a, optional("blocks"),
      optional("norm_weight"), optional("qk_weight"), nb::kw_only(), "output"_a, optional("delta"),
      optional("output_norm_weight"), "num_blocks"_a = whole.num_blocks, "block_write_idx"_a = whole.block_write_idx,
      "eps"_a = whole.eps, "output_norm_eps"_a = whole.output_norm_eps, "stable_blocks"_a = whole.stable_blocks);
  const AttnResPartialsArgs sweep;
  add(module, "attn_res_partials", attn_res_partials,
      "The bank's part of up to eight calls of attn_res in one sweep: silt/attn_res_two_phase.hpp.", "blocks"_a,
      "norm_weight"_a, "qk_weight"_a, nb::kw_only(), "statistics"_a, "mix"_a, "num_blocks"_a = sweep.num_blocks,
      "eps"_a = sweep.eps, "stable_blocks"_a = sweep.stable_blocks);
  const AttnResMergeArgs merge;
  add(module, "attn_res_merge", attn_res_merge,
      "What one call adds to its part of the sweep: silt/attn_res_two_phase.hpp.", "prefix"_a, "statistics"_a, "mix"_a,
      "norm_weight"_a, "qk_weight"_a, nb::kw_only(), "output"_a, optional("delta"), optional("slot"),
      optional("output_norm_weight"), "eps"_a = merge.eps, "output_norm_eps"_a = merge.output_norm_eps,
      "stable_partials"_a = merge.stable_partials);
}

void add_kda(nb::module_& module) {
  const KdaDecodeArgs decode;
  add(module, "kda_decode", kda_decode, "One token per sequence, fused: silt/kda_decode.hpp.", "x"_a, "conv_weight"_a,
      "conv_state"_a, "raw_gate"_a, "raw_beta"_a, "A_log"_a, "dt_bias"_a, "state_indices"_a, "state"_a, nb::kw_only(),
      "output"_a, optional("conv_bias"), "safe_gate"_a = decode.safe_gate, "lower_bound"_a = decode.lower_bound,
      optional("output_gate"), optional("norm_weight"), "norm_eps"_a = decode.norm_eps,
      "null_slot"_a = decode.null_slot);
  add(module, "fused_kda_decode", fused_kda_decode,
      "kda_decode with the arguments and layouts of serving engines: softplus gate without lower_bound, [1, B, H, 128] "
      "or [B, H * 128] where kda_decode has [B, H, 128].",
      "x"_a, "weight"_a, "bias"_a.none(), "conv_state"_a, "raw_g"_a, "raw_beta"_a, "A_log"_a, "dt_bias"_a,
      "state_indices"_a, "state"_a, "out"_a, optional("lower_bound"), optional("output_gate"), optional("norm_weight"),
      "norm_eps"_a = decode.norm_eps);
  const KdaPrefillArgs prefill;
  add(module, "kda_prefill", kda_prefill, "Whole sequences: silt/kda_prefill.hpp.", "x"_a, "conv_weight"_a,
      "conv_state"_a, "raw_gate"_a, "raw_beta"_a, "A_log"_a, "dt_bias"_a, "offsets"_a, "state_indices"_a, "state"_a,
      nb::kw_only(), "output"_a, optional("conv_bias"), optional("has_initial_state"),
      "safe_gate"_a = prefill.safe_gate, "lower_bound"_a = prefill.lower_bound, optional("output_gate"),
      optional("norm_weight"), "norm_eps"_a = prefill.norm_eps, "null_slot"_a = prefill.null_slot);
}

void add_chain(nb::module_& module) {
  const CausalConv1dUpdateArgs conv;
  add(module, "causal_conv1d_update", causal_conv1d_update,
      "Short convolution over a kept history, the first step of KDA: silt/causal_conv1d_update.hpp.", "x"_a, "weight"_a,
      "conv_state"_a, "state_indices"_a, nb::kw_only(), "output"_a, optional("bias"), "null_slot"_a = conv.null_slot);
  const KdaRecurrenceArgs recurrence;
  add(module, "kda_recurrence", kda_recurrence, "The delta rule on given q, k, v: silt/kda_recurrence.hpp.", "q"_a,
      "k"_a, "v"_a, "raw_gate"_a, "raw_beta"_a, "A_log"_a, "dt_bias"_a, "state_indices"_a, "state"_a, nb::kw_only(),
      "output"_a, optional("offsets"), optional("accepted"), "safe_gate"_a = recurrence.safe_gate,
      "lower_bound"_a = recurrence.lower_bound, "null_slot"_a = recurrence.null_slot);
  const RmsNormGatedArgs norm;
  add(module, "rms_norm_gated", rms_norm_gated, "RMS norm with a gate, the last step of KDA: silt/rms_norm_gated.hpp.",
      "x"_a, "gate"_a, "weight"_a, nb::kw_only(), "output"_a, "eps"_a = norm.eps, "activation"_a = "sigmoid");
}

}  // namespace

void add_operators(nb::module_& module) {
  add_attn_res(module);
  add_kda(module);
  add_chain(module);
}

}  // namespace silt::python
