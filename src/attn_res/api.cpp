#include "attn_res/list.hpp"
#include "core/status.hpp"
#include "dispatch/choose.hpp"
#include "dispatch/debug.hpp"

namespace silt {

namespace {

/// Launch::debug, SILT_DEBUG=1
Status check_values(const AttnResArgs& a, const AttnResProblem& p, const Launch& launch) {
  debug::Values values("attn_res", a.prefix.device, launch);
  ConstTensorView bank = a.blocks;
  if (bank.present()) bank.shape[1] = p.n;
  values.rows("prefix", a.prefix).rows("delta", a.delta).rows("blocks", bank);
  if (p.n > 0) values.all("norm_weight", a.norm_weight).all("qk_weight", a.qk_weight);
  values.all("output_norm_weight", a.output_norm_weight);
  return values.status();
}

}  // namespace

Status attn_res(const AttnResArgs& args, const Launch& launch) {
  AttnResProblem problem;
  SILT_TRY(check(args, &problem));
  if (problem.t == 0) return {};
  if (debug::on(launch)) SILT_TRY(check_values(args, problem, launch));
  return run(attn_res_list(), problem, args, args.prefix.device, launch);
}

}  // namespace silt
