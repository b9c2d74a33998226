#include "core/status.hpp"
#include "dispatch/choose.hpp"
#include "dispatch/debug.hpp"
#include "kda/conv_update/list.hpp"

namespace silt {

namespace {

/// Launch::debug, SILT_DEBUG=1
Status check_values(const CausalConv1dUpdateArgs& a, const CausalConv1dUpdateProblem& p, const Launch& launch) {
  debug::Values values("causal_conv1d_update", a.x.device, launch);
  values.indices("state_indices", a.state_indices, p.null_slot, p.slots);
  values.rows("x", a.x).slots("conv_state", a.conv_state).all("weight", a.weight).all("bias", a.bias);
  return values.status();
}

}  // namespace

Status causal_conv1d_update(const CausalConv1dUpdateArgs& args, const Launch& launch) {
  CausalConv1dUpdateProblem problem;
  SILT_TRY(check(args, &problem));
  if (problem.b == 0 || problem.n == 0) return {};
  if (debug::on(launch)) SILT_TRY(check_values(args, problem, launch));
  return run(causal_conv1d_update_list(), problem, args, args.x.device, launch);
}

}  // namespace silt
