#include "attn_res/list.hpp"
#include "core/status.hpp"
#include "dispatch/choose.hpp"

namespace silt {

Status attn_res(const AttnResArgs& args, const Launch& launch) {
  AttnResProblem problem;
  SILT_TRY(check(args, &problem));
  if (problem.t == 0) return {};
  return run(attn_res_list(), problem, args, args.prefix.device, launch);
}

}  // namespace silt
