// Every kernel of rms_norm_gated, fastest first. Order and presence are visible here; a kernel that is not built
// stays listed.
#include <array>

#include "gpu/built.hpp"
#include "kda/gated_norm/cpu/cpu_plain_rows.hpp"
#include "kda/gated_norm/cpu/cpu_reference.hpp"
#include "kda/gated_norm/cpu/cpu_simd_rows.hpp"
#include "kda/gated_norm/cuda/cuda_sm80_rows.hpp"
#include "kda/gated_norm/hip/hip_rows.hpp"
#include "kda/gated_norm/list.hpp"

namespace silt {
namespace {

namespace simd_rows = rms_norm_gated_cpu_simd_rows;

using RmsNormGatedLaunch = decltype(RmsNormGatedKernel::launch);
#if defined(__x86_64__)
constexpr RmsNormGatedLaunch kAvx512Bf16Rows = simd_rows::launch_avx512bf16;
constexpr RmsNormGatedLaunch kAvx512Rows = simd_rows::launch_avx512;
constexpr RmsNormGatedLaunch kAvx2Rows = simd_rows::launch_avx2;
constexpr RmsNormGatedLaunch kNeonRows = nullptr;
#elif defined(__aarch64__)
constexpr RmsNormGatedLaunch kAvx512Bf16Rows = nullptr;
constexpr RmsNormGatedLaunch kAvx512Rows = nullptr;
constexpr RmsNormGatedLaunch kAvx2Rows = nullptr;
constexpr RmsNormGatedLaunch kNeonRows = simd_rows::launch_neon;
#endif

constexpr std::array kKernels = {
    RmsNormGatedKernel{"cuda_sm80_rows", DeviceKind::cuda, KernelClass::portable,
                       rms_norm_gated_cuda_sm80_rows::accepts, SILT_CUDA_LAUNCH(rms_norm_gated_cuda_sm80_rows::launch),
                       kCudaNotBuilt},
    RmsNormGatedKernel{"hip_gfx950_rows", DeviceKind::hip, KernelClass::native, rms_norm_gated_hip_rows::accepts_gfx950,
                       SILT_HIP_GFX950_LAUNCH(rms_norm_gated_hip_rows::launch_gfx950), kHipGfx950NotBuilt},
    RmsNormGatedKernel{"hip_gfx942_rows", DeviceKind::hip, KernelClass::native, rms_norm_gated_hip_rows::accepts_gfx942,
                       SILT_HIP_GFX942_LAUNCH(rms_norm_gated_hip_rows::launch_gfx942), kHipGfx942NotBuilt},
    RmsNormGatedKernel{"cpu_avx512bf16_rows", DeviceKind::cpu, KernelClass::native, simd_rows::accepts<kCpuAvx512Bf16>,
                       kAvx512Bf16Rows, "needs an x86-64 build"},
    RmsNormGatedKernel{"cpu_avx512_rows", DeviceKind::cpu, KernelClass::native, simd_rows::accepts<kCpuAvx512>,
                       kAvx512Rows, "needs an x86-64 build"},
    RmsNormGatedKernel{"cpu_avx2_rows", DeviceKind::cpu, KernelClass::native, simd_rows::accepts<kCpuAvx2>, kAvx2Rows,
                       "needs an x86-64 build"},
    RmsNormGatedKernel{"cpu_neon_rows", DeviceKind::cpu, KernelClass::native, simd_rows::accepts<kCpuNeon>, kNeonRows,
                       "needs an AArch64 build"},
    RmsNormGatedKernel{"cpu_plain_rows", DeviceKind::cpu, KernelClass::portable, rms_norm_gated_cpu_plain_rows::accepts,
                       rms_norm_gated_cpu_plain_rows::launch},
    RmsNormGatedKernel{"cpu_reference", DeviceKind::cpu, KernelClass::reference, rms_norm_gated_cpu_reference::accepts,
                       rms_norm_gated_cpu_reference::launch},
};
std::array<KernelCounter, kKernels.size()> counters;

}  // namespace

RmsNormGatedList rms_norm_gated_list() { return {"rms_norm_gated", kKernels, counters}; }

}  // namespace silt
