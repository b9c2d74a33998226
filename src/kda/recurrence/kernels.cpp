// Every kernel of kda_recurrence, fastest first. Order and presence are visible here; a kernel that is not built
// stays listed.
#include <array>

#include "kda/recurrence/cpu/cpu_plain_rows.hpp"
#include "kda/recurrence/cpu/cpu_reference.hpp"
#include "kda/recurrence/list.hpp"

namespace silt {
namespace {

constexpr std::array kKernels = {
    KdaRecurrenceKernel{"cpu_plain_rows", DeviceKind::cpu, KernelClass::portable,
                        kda_recurrence_cpu_plain_rows::accepts, kda_recurrence_cpu_plain_rows::launch},
    KdaRecurrenceKernel{"cpu_reference", DeviceKind::cpu, KernelClass::reference, kda_recurrence_cpu_reference::accepts,
                        kda_recurrence_cpu_reference::launch},
};
std::array<KernelCounter, kKernels.size()> counters;

}  // namespace

KdaRecurrenceList kda_recurrence_list() { return {"kda_recurrence", kKernels, counters}; }

}  // namespace silt
