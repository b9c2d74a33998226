// Every kernel of attn_res_partials and attn_res_merge, fastest first. Order and presence are visible here; a kernel
// that is not built stays listed.
#include <array>

#include "attn_res/two_phase/cpu/cpu_reference.hpp"
#include "attn_res/two_phase/list.hpp"

namespace silt {
namespace {

constexpr std::array kPartials = {
    AttnResPartialsKernel{"cpu_reference", DeviceKind::cpu, KernelClass::reference,
                          attn_res_two_phase_cpu_reference::accepts_partials,
                          attn_res_two_phase_cpu_reference::launch_partials},
};
constexpr std::array kMerges = {
    AttnResMergeKernel{"cpu_reference", DeviceKind::cpu, KernelClass::reference,
                       attn_res_two_phase_cpu_reference::accepts_merge, attn_res_two_phase_cpu_reference::launch_merge},
};
std::array<KernelCounter, kPartials.size()> partials_counters;
std::array<KernelCounter, kMerges.size()> merge_counters;

}  // namespace

AttnResPartialsList attn_res_partials_list() { return {"attn_res_partials", kPartials, partials_counters}; }
AttnResMergeList attn_res_merge_list() { return {"attn_res_merge", kMerges, merge_counters}; }

}  // namespace silt
