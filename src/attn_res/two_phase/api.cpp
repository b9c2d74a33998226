#include "attn_res/two_phase/list.hpp"
#include "core/status.hpp"
#include "dispatch/choose.hpp"

namespace silt {

Status attn_res_partials(const AttnResPartialsArgs& args, const Launch& launch) {
  AttnResPartialsProblem problem;
  SILT_TRY(check(args, &problem));
  if (problem.t == 0) return {};
  return run(attn_res_partials_list(), problem, args, args.blocks.device, launch);
}

Status attn_res_merge(const AttnResMergeArgs& args, const Launch& launch) {
  AttnResMergeProblem problem;
  SILT_TRY(check(args, &problem));
  if (problem.t == 0) return {};
  return run(attn_res_merge_list(), problem, args, args.prefix.device, launch);
}

}  // namespace silt
