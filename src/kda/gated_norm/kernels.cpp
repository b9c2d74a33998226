// Every kernel of rms_norm_gated, fastest first. Order and presence are visible here; a kernel that is not built
// stays listed.
#include <array>

#include "kda/gated_norm/cpu/cpu_plain_rows.hpp"
#include "kda/gated_norm/cpu/cpu_reference.hpp"
#include "kda/gated_norm/list.hpp"

namespace silt {
namespace {

constexpr std::array kKernels = {
    RmsNormGatedKernel{"cpu_plain_rows", DeviceKind::cpu, KernelClass::portable, rms_norm_gated_cpu_plain_rows::accepts,
                       rms_norm_gated_cpu_plain_rows::launch},
    RmsNormGatedKernel{"cpu_reference", DeviceKind::cpu, KernelClass::reference, rms_norm_gated_cpu_reference::accepts,
                       rms_norm_gated_cpu_reference::launch},
};
std::array<KernelCounter, kKernels.size()> counters;

}  // namespace

RmsNormGatedList rms_norm_gated_list() { return {"rms_norm_gated", kKernels, counters}; }

}  // namespace silt
