#include "core/status.hpp"
#include "dispatch/choose.hpp"
#include "kda/decode/list.hpp"

namespace silt {

Status kda_decode(const KdaDecodeArgs& args, const Launch& launch) {
  KdaDecodeProblem problem;
  SILT_TRY(check(args, &problem));
  if (problem.b == 0) return {};
  return run(kda_decode_list(), problem, args, args.x.device, launch);
}

}  // namespace silt
