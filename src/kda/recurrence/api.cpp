#include "core/status.hpp"
#include "dispatch/choose.hpp"
#include "dispatch/debug.hpp"
#include "kda/recurrence/list.hpp"

namespace silt {

namespace {

/// Launch::debug, SILT_DEBUG=1
Status check_values(const KdaRecurrenceArgs& a, const KdaRecurrenceProblem& p, const Launch& launch) {
  debug::Values values("kda_recurrence", a.q.device, launch);
  values.accepted("accepted", a.accepted, p.columns);
  values.indices("state_indices", a.state_indices, p.null_slot, p.slots).offsets("offsets", a.offsets, p.t);
  values.rows("q", a.q).rows("k", a.k).rows("v", a.v).gates("raw_gate", a.raw_gate).rows("raw_beta", a.raw_beta);
  values.slots("state", a.state).all("A_log", a.A_log).all("dt_bias", a.dt_bias);
  return values.status();
}

}  // namespace

Status kda_recurrence(const KdaRecurrenceArgs& args, const Launch& launch) {
  KdaRecurrenceProblem problem;
  SILT_TRY(check(args, &problem));
  if (problem.n == 0 || problem.t == 0) return {};
  if (debug::on(launch)) SILT_TRY(check_values(args, problem, launch));
  return run(kda_recurrence_list(), problem, args, args.q.device, launch);
}

}  // namespace silt
