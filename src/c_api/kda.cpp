#include "silt/causal_conv1d_update.hpp"
#include "silt/kda_decode.hpp"
#include "silt/kda_prefill.hpp"
#include "silt/kda_recurrence.hpp"
#include "silt/rms_norm_gated.hpp"

#include "c_api/convert.hpp"

namespace {

/// What decode and prefill have in common.
template <class CArgs, class Args>
void fill_step(const CArgs& c, silt::Converter& in, Args& to) {
  to.x = in.view("x", c.x);
  to.conv_weight = in.view("conv_weight", c.conv_weight);
  to.conv_bias = in.view("conv_bias", c.conv_bias);
  to.conv_state = in.view("conv_state", c.conv_state);
  to.output_gate = in.view("output_gate", c.output_gate);
  to.norm_weight = in.view("norm_weight", c.norm_weight);
  to.norm_eps = c.norm_eps;
}

/// What they share with the recurrence.
template <class CArgs, class Args>
void fill_state(const CArgs& c, silt::Converter& in, Args& to) {
  to.raw_gate = in.view("raw_gate", c.raw_gate);
  to.raw_beta = in.view("raw_beta", c.raw_beta);
  to.A_log = in.view("A_log", c.A_log);
  to.dt_bias = in.view("dt_bias", c.dt_bias);
  to.state_indices = in.view("state_indices", c.state_indices);
  to.state = in.view("state", c.state);
  to.safe_gate = c.safe_gate != 0;
  to.lower_bound = c.lower_bound;
  to.output = in.view("output", c.output);
  to.null_slot = c.null_slot;
}

}  // namespace

silt_status silt_kda_decode(const silt_kda_decode_args* args, const silt_launch* launch) {
  return silt::call<silt::KdaDecodeArgs>(
      "kda_decode", args, sizeof *args, launch,
      [](const silt_kda_decode_args& c, silt::Converter& in, silt::KdaDecodeArgs& to) {
        fill_step(c, in, to);
        fill_state(c, in, to);
      },
      silt::kda_decode);
}

silt_status silt_kda_prefill(const silt_kda_prefill_args* args, const silt_launch* launch) {
  return silt::call<silt::KdaPrefillArgs>(
      "kda_prefill", args, sizeof *args, launch,
      [](const silt_kda_prefill_args& c, silt::Converter& in, silt::KdaPrefillArgs& to) {
        fill_step(c, in, to);
        fill_state(c, in, to);
        to.offsets = in.view("offsets", c.offsets);
        to.has_initial_state = in.view("has_initial_state", c.has_initial_state);
      },
      silt::kda_prefill);
}

silt_status silt_causal_conv1d_update(const silt_causal_conv1d_update_args* args, const silt_launch* launch) {
  return silt::call<silt::CausalConv1dUpdateArgs>(
      "causal_conv1d_update", args, offsetof(silt_causal_conv1d_update_args, reserved), launch,
      [](const silt_causal_conv1d_update_args& c, silt::Converter& in, silt::CausalConv1dUpdateArgs& to) {
        to.x = in.view("x", c.x);
        to.weight = in.view("weight", c.weight);
        to.bias = in.view("bias", c.bias);
        to.conv_state = in.view("conv_state", c.conv_state);
        to.state_indices = in.view("state_indices", c.state_indices);
        to.output = in.view("output", c.output);
        to.null_slot = c.null_slot;
      },
      silt::causal_conv1d_update);
}

silt_status silt_kda_recurrence(const silt_kda_recurrence_args* args, const silt_launch* launch) {
  return silt::call<silt::KdaRecurrenceArgs>(
      "kda_recurrence", args, offsetof(silt_kda_recurrence_args, reserved), launch,
      [](const silt_kda_recurrence_args& c, silt::Converter& in, silt::KdaRecurrenceArgs& to) {
        fill_state(c, in, to);
        to.q = in.view("q", c.q);
        to.k = in.view("k", c.k);
        to.v = in.view("v", c.v);
        to.offsets = in.view("offsets", c.offsets);
        to.accepted = in.view("accepted", c.accepted);
      },
      silt::kda_recurrence);
}

silt_status silt_rms_norm_gated(const silt_rms_norm_gated_args* args, const silt_launch* launch) {
  return silt::call<silt::RmsNormGatedArgs>(
      "rms_norm_gated", args, sizeof *args, launch,
      [](const silt_rms_norm_gated_args& c, silt::Converter& in, silt::RmsNormGatedArgs& to) {
        to.x = in.view("x", c.x);
        to.gate = in.view("gate", c.gate);
        to.weight = in.view("weight", c.weight);
        to.eps = c.eps;
        to.activation =
            static_cast<silt::GateActivation>(in.value("activation", c.activation, SILT_SIGMOID, SILT_SILU));
        to.output = in.view("output", c.output);
      },
      silt::rms_norm_gated);
}
