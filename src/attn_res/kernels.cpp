// Every kernel of attn_res, fastest first. Order and presence are visible here; a kernel that is not built stays
// listed.
#include <array>

#include "attn_res/cpu/cpu_plain_rows.hpp"
#include "attn_res/cpu/cpu_reference.hpp"
#include "attn_res/cuda/cuda_sm80_rows.hpp"
#include "attn_res/cuda/cuda_sm90_bulk.hpp"
#include "attn_res/cuda/cuda_sm90_direct.hpp"
#include "attn_res/list.hpp"
#include "gpu/built.hpp"

namespace silt {
namespace {

constexpr std::array kKernels = {
    AttnResKernel{"cuda_sm90_direct", DeviceKind::cuda, KernelClass::native, attn_res_cuda_sm90_direct::accepts,
                  SILT_CUDA_LAUNCH(attn_res_cuda_sm90_direct::launch), kCudaNotBuilt,
                  attn_res_cuda_sm90_direct::describe},
    AttnResKernel{"cuda_sm90_bulk", DeviceKind::cuda, KernelClass::native, attn_res_cuda_sm90_bulk::accepts,
                  SILT_CUDA_LAUNCH(attn_res_cuda_sm90_bulk::launch), kCudaNotBuilt, attn_res_cuda_sm90_bulk::describe},
    AttnResKernel{"cuda_sm80_rows", DeviceKind::cuda, KernelClass::portable, attn_res_cuda_sm80_rows::accepts,
                  SILT_CUDA_LAUNCH(attn_res_cuda_sm80_rows::launch), kCudaNotBuilt},
    AttnResKernel{"cpu_plain_rows", DeviceKind::cpu, KernelClass::portable, attn_res_cpu_plain_rows::accepts,
                  attn_res_cpu_plain_rows::launch},
    AttnResKernel{"cpu_reference", DeviceKind::cpu, KernelClass::reference, attn_res_cpu_reference::accepts,
                  attn_res_cpu_reference::launch},
};
std::array<KernelCounter, kKernels.size()> counters;

}  // namespace

AttnResList attn_res_list() { return {"attn_res", kKernels, counters}; }

}  // namespace silt
