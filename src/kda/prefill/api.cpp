#include "core/status.hpp"
#include "dispatch/choose.hpp"
#include "dispatch/debug.hpp"
#include "kda/prefill/list.hpp"

namespace silt {

namespace {

/// Launch::debug, SILT_DEBUG=1
Status check_values(const KdaPrefillArgs& a, const KdaPrefillProblem& p, const Launch& launch) {
  debug::Values values("kda_prefill", a.x.device, launch);
  values.indices("state_indices", a.state_indices, p.null_slot, p.slots);
  values.initial("has_initial_state", a.has_initial_state).offsets("offsets", a.offsets, p.t);
  values.rows("x", a.x).gates("raw_gate", a.raw_gate).rows("raw_beta", a.raw_beta).rows("output_gate", a.output_gate);
  values.slots("conv_state", a.conv_state).slots("state", a.state);
  values.all("conv_weight", a.conv_weight).all("conv_bias", a.conv_bias).all("A_log", a.A_log);
  values.all("dt_bias", a.dt_bias).all("norm_weight", a.norm_weight);
  return values.status();
}

}  // namespace

Status kda_prefill(const KdaPrefillArgs& args, const Launch& launch) {
  KdaPrefillProblem problem;
  SILT_TRY(check(args, &problem));
  if (problem.n == 0 || problem.t == 0) return {};
  if (debug::on(launch)) SILT_TRY(check_values(args, problem, launch));
  return run(kda_prefill_list(), problem, args, args.x.device, launch);
}

}  // namespace silt
