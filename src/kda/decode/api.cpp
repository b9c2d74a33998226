#include "core/status.hpp"
#include "dispatch/choose.hpp"
#include "dispatch/debug.hpp"
#include "kda/decode/list.hpp"

namespace silt {

namespace {

/// Launch::debug, SILT_DEBUG=1
Status check_values(const KdaDecodeArgs& a, const KdaDecodeProblem& p, const Launch& launch) {
  debug::Values values("kda_decode", a.x.device, launch);
  values.indices("state_indices", a.state_indices, p.null_slot, p.slots);
  values.rows("x", a.x).gates("raw_gate", a.raw_gate).rows("raw_beta", a.raw_beta).rows("output_gate", a.output_gate);
  values.slots("conv_state", a.conv_state).slots("state", a.state);
  values.all("conv_weight", a.conv_weight).all("conv_bias", a.conv_bias).all("A_log", a.A_log);
  values.all("dt_bias", a.dt_bias).all("norm_weight", a.norm_weight);
  return values.status();
}

}  // namespace

Status kda_decode(const KdaDecodeArgs& args, const Launch& launch) {
  KdaDecodeProblem problem;
  SILT_TRY(check(args, &problem));
  if (problem.b == 0) return {};
  if (debug::on(launch)) SILT_TRY(check_values(args, problem, launch));
  return run(kda_decode_list(), problem, args, args.x.device, launch);
}

}  // namespace silt
