#include "silt/attn_res.hpp"

#include "silt/attn_res_two_phase.hpp"

#include "c_api/convert.hpp"

silt_status silt_attn_res(const silt_attn_res_args* args, const silt_launch* launch) {
  return silt::call<silt::AttnResArgs>(
      "attn_res", args, sizeof *args, launch,
      [](const silt_attn_res_args& c, silt::Converter& in, silt::AttnResArgs& to) {
        to.prefix = in.view("prefix", c.prefix);
        to.delta = in.view("delta", c.delta);
        to.blocks = in.view("blocks", c.blocks);
        to.norm_weight = in.view("norm_weight", c.norm_weight);
        to.qk_weight = in.view("qk_weight", c.qk_weight);
        to.output_norm_weight = in.view("output_norm_weight", c.output_norm_weight);
        to.num_blocks = c.num_blocks;
        to.block_write_idx = c.block_write_idx;
        to.eps = c.eps;
        to.output_norm_eps = c.output_norm_eps;
        to.output = in.view("output", c.output);
        to.stable_blocks = c.stable_blocks;
      },
      silt::attn_res);
}

silt_status silt_attn_res_partials(const silt_attn_res_partials_args* args, const silt_launch* launch) {
  return silt::call<silt::AttnResPartialsArgs>(
      "attn_res_partials", args, offsetof(silt_attn_res_partials_args, reserved), launch,
      [](const silt_attn_res_partials_args& c, silt::Converter& in, silt::AttnResPartialsArgs& to) {
        to.blocks = in.view("blocks", c.blocks);
        to.norm_weight = in.view("norm_weight", c.norm_weight);
        to.qk_weight = in.view("qk_weight", c.qk_weight);
        to.num_blocks = c.num_blocks;
        to.statistics = in.view("statistics", c.statistics);
        to.mix = in.view("mix", c.mix);
        to.stable_blocks = c.stable_blocks;
        to.eps = c.eps;
      },
      silt::attn_res_partials);
}

silt_status silt_attn_res_merge(const silt_attn_res_merge_args* args, const silt_launch* launch) {
  return silt::call<silt::AttnResMergeArgs>(
      "attn_res_merge", args, offsetof(silt_attn_res_merge_args, reserved), launch,
      [](const silt_attn_res_merge_args& c, silt::Converter& in, silt::AttnResMergeArgs& to) {
        to.prefix = in.view("prefix", c.prefix);
        to.delta = in.view("delta", c.delta);
        to.statistics = in.view("statistics", c.statistics);
        to.mix = in.view("mix", c.mix);
        to.slot = in.view("slot", c.slot);
        to.norm_weight = in.view("norm_weight", c.norm_weight);
        to.qk_weight = in.view("qk_weight", c.qk_weight);
        to.output_norm_weight = in.view("output_norm_weight", c.output_norm_weight);
        to.eps = c.eps;
        to.output_norm_eps = c.output_norm_eps;
        to.output = in.view("output", c.output);
        to.stable_partials = in.value("stable_partials", c.stable_partials, 0, 1) == 1;
      },
      silt::attn_res_merge);
}
