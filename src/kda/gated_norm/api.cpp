#include "core/status.hpp"
#include "dispatch/choose.hpp"
#include "dispatch/debug.hpp"
#include "kda/gated_norm/list.hpp"

namespace silt {

namespace {

/// Launch::debug, SILT_DEBUG=1
Status check_values(const RmsNormGatedArgs& a, const Launch& launch) {
  debug::Values values("rms_norm_gated", a.x.device, launch);
  values.rows("x", a.x).rows("gate", a.gate).all("weight", a.weight);
  return values.status();
}

}  // namespace

Status rms_norm_gated(const RmsNormGatedArgs& args, const Launch& launch) {
  RmsNormGatedProblem problem;
  SILT_TRY(check(args, &problem));
  if (problem.t == 0) return {};
  if (debug::on(launch)) SILT_TRY(check_values(args, launch));
  return run(rms_norm_gated_list(), problem, args, args.x.device, launch);
}

}  // namespace silt
