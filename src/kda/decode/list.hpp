// The kernel list of kda_decode.
#pragma once

#include "dispatch/kernel.hpp"
#include "kda/decode/problem.hpp"

namespace silt {

using KdaDecodeKernel = Kernel<KdaDecodeProblem, KdaDecodeArgs>;
using KdaDecodeList = KernelList<KdaDecodeProblem, KdaDecodeArgs>;

KdaDecodeList kda_decode_list();

}  // namespace silt
