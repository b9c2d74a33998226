#include "core/status.hpp"
#include "dispatch/choose.hpp"
#include "kda/prefill/list.hpp"

namespace silt {

Status kda_prefill(const KdaPrefillArgs& args, const Launch& launch) {
  KdaPrefillProblem problem;
  SILT_TRY(check(args, &problem));
  if (problem.n == 0 || problem.t == 0) return {};
  return run(kda_prefill_list(), problem, args, args.x.device, launch);
}

}  // namespace silt
