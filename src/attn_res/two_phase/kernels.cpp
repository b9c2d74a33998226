// Every kernel of attn_res_partials and attn_res_merge, fastest first. Order and presence are visible here; a kernel
// that is not built stays listed.
#include <array>

#include "attn_res/two_phase/cpu/cpu_reference.hpp"
#include "attn_res/two_phase/cuda/cuda_sm80_rows.hpp"
#include "attn_res/two_phase/cuda/cuda_sm90_direct.hpp"
#include "attn_res/two_phase/cuda/cuda_sm90_tensor.hpp"
#include "attn_res/two_phase/list.hpp"
#include "gpu/built.hpp"

namespace silt {
namespace {

constexpr std::array kPartials = {
    AttnResPartialsKernel{"cuda_sm90_tensor", DeviceKind::cuda, KernelClass::native,
                          attn_res_partials_cuda_sm90_tensor::accepts,
                          SILT_CUDA_LAUNCH(attn_res_partials_cuda_sm90_tensor::launch), kCudaNotBuilt,
                          attn_res_partials_cuda_sm90_tensor::describe},
    AttnResPartialsKernel{"cuda_sm80_rows", DeviceKind::cuda, KernelClass::portable,
                          attn_res_two_phase_cuda_sm80_rows::accepts_partials,
                          SILT_CUDA_LAUNCH(attn_res_two_phase_cuda_sm80_rows::launch_partials), kCudaNotBuilt},
    AttnResPartialsKernel{"cpu_reference", DeviceKind::cpu, KernelClass::reference,
                          attn_res_two_phase_cpu_reference::accepts_partials,
                          attn_res_two_phase_cpu_reference::launch_partials},
};
constexpr std::array kMerges = {
    AttnResMergeKernel{"cuda_sm90_direct", DeviceKind::cuda, KernelClass::native,
                       attn_res_merge_cuda_sm90_direct::accepts,
                       SILT_CUDA_LAUNCH(attn_res_merge_cuda_sm90_direct::launch), kCudaNotBuilt,
                       attn_res_merge_cuda_sm90_direct::describe},
    AttnResMergeKernel{"cuda_sm80_rows", DeviceKind::cuda, KernelClass::portable,
                       attn_res_two_phase_cuda_sm80_rows::accepts_merge,
                       SILT_CUDA_LAUNCH(attn_res_two_phase_cuda_sm80_rows::launch_merge), kCudaNotBuilt},
    AttnResMergeKernel{"cpu_reference", DeviceKind::cpu, KernelClass::reference,
                       attn_res_two_phase_cpu_reference::accepts_merge, attn_res_two_phase_cpu_reference::launch_merge},
};
std::array<KernelCounter, kPartials.size()> partials_counters;
std::array<KernelCounter, kMerges.size()> merge_counters;

}  // namespace

AttnResPartialsList attn_res_partials_list() { return {"attn_res_partials", kPartials, partials_counters}; }
AttnResMergeList attn_res_merge_list() { return {"attn_res_merge", kMerges, merge_counters}; }

}  // namespace silt
