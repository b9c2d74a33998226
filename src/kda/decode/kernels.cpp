// Every kernel of kda_decode, fastest first. Order and presence are visible here; a kernel that is not built stays
// listed.
#include <array>

#include "kda/decode/cpu/cpu_plain_rows.hpp"
#include "kda/decode/cpu/cpu_reference.hpp"
#include "kda/decode/list.hpp"

namespace silt {
namespace {

constexpr std::array kKernels = {
    KdaDecodeKernel{"cpu_plain_rows", DeviceKind::cpu, KernelClass::portable, kda_decode_cpu_plain_rows::accepts,
                    kda_decode_cpu_plain_rows::launch},
    KdaDecodeKernel{"cpu_reference", DeviceKind::cpu, KernelClass::reference, kda_decode_cpu_reference::accepts,
                    kda_decode_cpu_reference::launch},
};
std::array<KernelCounter, kKernels.size()> counters;

}  // namespace

KdaDecodeList kda_decode_list() { return {"kda_decode", kKernels, counters}; }

}  // namespace silt
