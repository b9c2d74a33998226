#include "core/status.hpp"
#include "dispatch/choose.hpp"
#include "kda/conv_update/list.hpp"

namespace silt {

Status causal_conv1d_update(const CausalConv1dUpdateArgs& args, const Launch& launch) {
  CausalConv1dUpdateProblem problem;
  SILT_TRY(check(args, &problem));
  if (problem.b == 0 || problem.n == 0) return {};
  return run(causal_conv1d_update_list(), problem, args, args.x.device, launch);
}

}  // namespace silt
