// Every kernel of kda_prefill, fastest first. Order and presence are visible here; a kernel that is not built
// stays listed.
#include <array>

#include "kda/prefill/cpu/cpu_plain_rows.hpp"
#include "kda/prefill/cpu/cpu_reference.hpp"
#include "kda/prefill/list.hpp"

namespace silt {
namespace {

constexpr std::array kKernels = {
    KdaPrefillKernel{"cpu_plain_rows", DeviceKind::cpu, KernelClass::portable, kda_prefill_cpu_plain_rows::accepts,
                     kda_prefill_cpu_plain_rows::launch},
    KdaPrefillKernel{"cpu_reference", DeviceKind::cpu, KernelClass::reference, kda_prefill_cpu_reference::accepts,
                     kda_prefill_cpu_reference::launch},
};
std::array<KernelCounter, kKernels.size()> counters;

}  // namespace

KdaPrefillList kda_prefill_list() { return {"kda_prefill", kKernels, counters}; }

}  // namespace silt
