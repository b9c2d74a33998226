#include "core/status.hpp"
#include "dispatch/choose.hpp"
#include "kda/recurrence/list.hpp"

namespace silt {

Status kda_recurrence(const KdaRecurrenceArgs& args, const Launch& launch) {
  KdaRecurrenceProblem problem;
  SILT_TRY(check(args, &problem));
  if (problem.n == 0 || problem.t == 0) return {};
  return run(kda_recurrence_list(), problem, args, args.q.device, launch);
}

}  // namespace silt
