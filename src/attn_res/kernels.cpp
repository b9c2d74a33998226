// Every kernel of attn_res, fastest first. Order and presence are visible here; a kernel that is not built stays
// listed.
#include <array>

#include "attn_res/cpu/cpu_plain_rows.hpp"
#include "attn_res/cpu/cpu_reference.hpp"
#include "attn_res/cpu/cpu_simd_rows.hpp"
#include "attn_res/cuda/cuda_sm80_rows.hpp"
#include "attn_res/cuda/cuda_sm90_bulk.hpp"
#include "attn_res/cuda/cuda_sm90_direct.hpp"
#include "attn_res/hip/hip_rows.hpp"
#include "attn_res/list.hpp"
#include "gpu/built.hpp"

namespace silt {
namespace {

namespace simd_rows = attn_res_cpu_simd_rows;

#if defined(__x86_64__)
constexpr auto kAvx512Bf16Rows = simd_rows::launch_avx512bf16;
constexpr auto kAvx512Rows = simd_rows::launch_avx512;
constexpr auto kAvx2Rows = simd_rows::launch_avx2;
constexpr AttnResLaunch kNeonRows = nullptr;
#elif defined(__aarch64__)
constexpr AttnResLaunch kAvx512Bf16Rows = nullptr;
constexpr AttnResLaunch kAvx512Rows = nullptr;
constexpr AttnResLaunch kAvx2Rows = nullptr;
constexpr auto kNeonRows = simd_rows::launch_neon;
#endif

constexpr std::array kKernels = {
    AttnResKernel{"cuda_sm90_direct", DeviceKind::cuda, KernelClass::native, attn_res_cuda_sm90_direct::accepts,
                  SILT_CUDA_LAUNCH(attn_res_cuda_sm90_direct::launch), kCudaNotBuilt,
                  attn_res_cuda_sm90_direct::describe},
    AttnResKernel{"cuda_sm90_bulk", DeviceKind::cuda, KernelClass::native, attn_res_cuda_sm90_bulk::accepts,
                  SILT_CUDA_LAUNCH(attn_res_cuda_sm90_bulk::launch), kCudaNotBuilt, attn_res_cuda_sm90_bulk::describe},
    AttnResKernel{"cuda_sm80_rows", DeviceKind::cuda, KernelClass::portable, attn_res_cuda_sm80_rows::accepts,
                  SILT_CUDA_LAUNCH(attn_res_cuda_sm80_rows::launch), kCudaNotBuilt},
    AttnResKernel{"hip_gfx950_rows", DeviceKind::hip, KernelClass::native, attn_res_hip_rows::accepts_gfx950,
                  SILT_HIP_GFX950_LAUNCH(attn_res_hip_rows::launch_gfx950), kHipGfx950NotBuilt,
                  attn_res_hip_rows::plan},
    AttnResKernel{"hip_gfx942_rows", DeviceKind::hip, KernelClass::native, attn_res_hip_rows::accepts_gfx942,
                  SILT_HIP_GFX942_LAUNCH(attn_res_hip_rows::launch_gfx942), kHipGfx942NotBuilt,
                  attn_res_hip_rows::plan},
    AttnResKernel{"cpu_avx512bf16_rows", DeviceKind::cpu, KernelClass::native, simd_rows::accepts<kCpuAvx512Bf16>,
                  kAvx512Bf16Rows, "needs an x86-64 build"},
    AttnResKernel{"cpu_avx512_rows", DeviceKind::cpu, KernelClass::native, simd_rows::accepts<kCpuAvx512>, kAvx512Rows,
                  "needs an x86-64 build"},
    AttnResKernel{"cpu_avx2_rows", DeviceKind::cpu, KernelClass::native, simd_rows::accepts<kCpuAvx2>, kAvx2Rows,
                  "needs an x86-64 build"},
    AttnResKernel{"cpu_neon_rows", DeviceKind::cpu, KernelClass::native, simd_rows::accepts<kCpuNeon>, kNeonRows,
                  "needs an AArch64 build"},
    AttnResKernel{"cpu_plain_rows", DeviceKind::cpu, KernelClass::portable, attn_res_cpu_plain_rows::accepts,
                  attn_res_cpu_plain_rows::launch},
    AttnResKernel{"cpu_reference", DeviceKind::cpu, KernelClass::reference, attn_res_cpu_reference::accepts,
                  attn_res_cpu_reference::launch},
};
std::array<KernelCounter, kKernels.size()> counters;

}  // namespace

AttnResList attn_res_list() { return {"attn_res", kKernels, counters}; }

}  // namespace silt
