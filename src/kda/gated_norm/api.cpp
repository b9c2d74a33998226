#include "core/status.hpp"
#include "dispatch/choose.hpp"
#include "kda/gated_norm/list.hpp"

namespace silt {

Status rms_norm_gated(const RmsNormGatedArgs& args, const Launch& launch) {
  RmsNormGatedProblem problem;
  SILT_TRY(check(args, &problem));
  if (problem.t == 0) return {};
  return run(rms_norm_gated_list(), problem, args, args.x.device, launch);
}

}  // namespace silt
