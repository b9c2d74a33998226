// Every kernel of attn_res, fastest first. Order and presence are visible here; a kernel that is not built stays
// listed.
#include <array>

#include "attn_res/cpu/cpu_plain_rows.hpp"
#include "attn_res/cpu/cpu_reference.hpp"
#include "attn_res/list.hpp"

namespace silt {
namespace {

constexpr std::array kKernels = {
    AttnResKernel{"cpu_plain_rows", DeviceKind::cpu, KernelClass::portable, attn_res_cpu_plain_rows::accepts,
                  attn_res_cpu_plain_rows::launch},
    AttnResKernel{"cpu_reference", DeviceKind::cpu, KernelClass::reference, attn_res_cpu_reference::accepts,
                  attn_res_cpu_reference::launch},
};
std::array<KernelCounter, kKernels.size()> counters;

}  // namespace

AttnResList attn_res_list() { return {"attn_res", kKernels, counters}; }

}  // namespace silt
