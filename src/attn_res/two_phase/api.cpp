#include "attn_res/two_phase/list.hpp"
#include "core/status.hpp"
#include "dispatch/choose.hpp"
#include "dispatch/debug.hpp"

namespace silt {

namespace {

/// Launch::debug, SILT_DEBUG=1
Status check_values(const AttnResPartialsArgs& a, const AttnResPartialsProblem& p, const Launch& launch) {
  debug::Values values("attn_res_partials", a.blocks.device, launch);
  ConstTensorView bank = a.blocks;
  bank.shape[1] = p.n;
  values.rows("blocks", bank).all("norm_weight", a.norm_weight).all("qk_weight", a.qk_weight);
  return values.status();
}

}  // namespace

Status attn_res_partials(const AttnResPartialsArgs& args, const Launch& launch) {
  AttnResPartialsProblem problem;
  SILT_TRY(check(args, &problem));
  if (problem.t == 0) return {};
  if (debug::on(launch)) SILT_TRY(check_values(args, problem, launch));
  return run(attn_res_partials_list(), problem, args, args.blocks.device, launch);
}

namespace {

/// Launch::debug, SILT_DEBUG=1
Status check_values(const AttnResMergeArgs& a, const Launch& launch) {
  debug::Values values("attn_res_merge", a.prefix.device, launch);
  values.rows("prefix", a.prefix).rows("delta", a.delta).rows("statistics", a.statistics).rows("mix", a.mix);
  values.all("norm_weight", a.norm_weight).all("qk_weight", a.qk_weight);
  values.all("output_norm_weight", a.output_norm_weight);
  return values.status();
}

}  // namespace

Status attn_res_merge(const AttnResMergeArgs& args, const Launch& launch) {
  AttnResMergeProblem problem;
  SILT_TRY(check(args, &problem));
  if (problem.t == 0) return {};
  if (debug::on(launch)) SILT_TRY(check_values(args, launch));
  return run(attn_res_merge_list(), problem, args, args.prefix.device, launch);
}

}  // namespace silt
