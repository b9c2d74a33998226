// Every kernel of causal_conv1d_update, fastest first. Order and presence are visible here; a kernel that is not built
// stays listed.
#include <array>

#include "kda/conv_update/cpu/cpu_plain_rows.hpp"
#include "kda/conv_update/cpu/cpu_reference.hpp"
#include "kda/conv_update/list.hpp"

namespace silt {
namespace {

constexpr std::array kKernels = {
    CausalConv1dUpdateKernel{"cpu_plain_rows", DeviceKind::cpu, KernelClass::portable,
                             causal_conv1d_update_cpu_plain_rows::accepts, causal_conv1d_update_cpu_plain_rows::launch},
    CausalConv1dUpdateKernel{"cpu_reference", DeviceKind::cpu, KernelClass::reference,
                             causal_conv1d_update_cpu_reference::accepts, causal_conv1d_update_cpu_reference::launch},
};
std::array<KernelCounter, kKernels.size()> counters;

}  // namespace

CausalConv1dUpdateList causal_conv1d_update_list() { return {"causal_conv1d_update", kKernels, counters}; }

}  // namespace silt
