// Every kernel of causal_conv1d_update, fastest first. Order and presence are visible here; a kernel that is not built
// stays listed.
#include <array>

#include "gpu/built.hpp"
#include "kda/conv_update/cpu/cpu_plain_rows.hpp"
#include "kda/conv_update/cpu/cpu_reference.hpp"
#include "kda/conv_update/cpu/cpu_simd_channels.hpp"
#include "kda/conv_update/cuda/cuda_sm80_channels.hpp"
#include "kda/conv_update/hip/hip_channels.hpp"
#include "kda/conv_update/list.hpp"

namespace silt {
namespace {

namespace simd_channels = causal_conv1d_update_cpu_simd_channels;

using CausalConv1dUpdateLaunch = decltype(CausalConv1dUpdateKernel::launch);
#if defined(__x86_64__)
constexpr CausalConv1dUpdateLaunch kAvx512Bf16Channels = simd_channels::launch_avx512bf16;
constexpr CausalConv1dUpdateLaunch kAvx512Channels = simd_channels::launch_avx512;
constexpr CausalConv1dUpdateLaunch kAvx2Channels = simd_channels::launch_avx2;
constexpr CausalConv1dUpdateLaunch kNeonChannels = nullptr;
#elif defined(__aarch64__)
constexpr CausalConv1dUpdateLaunch kAvx512Bf16Channels = nullptr;
constexpr CausalConv1dUpdateLaunch kAvx512Channels = nullptr;
constexpr CausalConv1dUpdateLaunch kAvx2Channels = nullptr;
constexpr CausalConv1dUpdateLaunch kNeonChannels = simd_channels::launch_neon;
#endif

constexpr std::array kKernels = {
    CausalConv1dUpdateKernel{"cuda_sm80_channels", DeviceKind::cuda, KernelClass::portable,
                             causal_conv1d_update_cuda_sm80_channels::accepts,
                             SILT_CUDA_LAUNCH(causal_conv1d_update_cuda_sm80_channels::launch), kCudaNotBuilt},
    CausalConv1dUpdateKernel{
        "hip_gfx950_channels", DeviceKind::hip, KernelClass::native, causal_conv1d_update_hip_channels::accepts_gfx950,
        SILT_HIP_GFX950_LAUNCH(causal_conv1d_update_hip_channels::launch_gfx950), kHipGfx950NotBuilt},
    CausalConv1dUpdateKernel{
        "hip_gfx942_channels", DeviceKind::hip, KernelClass::native, causal_conv1d_update_hip_channels::accepts_gfx942,
        SILT_HIP_GFX942_LAUNCH(causal_conv1d_update_hip_channels::launch_gfx942), kHipGfx942NotBuilt},
    CausalConv1dUpdateKernel{"cpu_avx512bf16_channels", DeviceKind::cpu, KernelClass::native,
                             simd_channels::accepts<kCpuAvx512Bf16>, kAvx512Bf16Channels, "needs an x86-64 build"},
    CausalConv1dUpdateKernel{"cpu_avx512_channels", DeviceKind::cpu, KernelClass::native,
                             simd_channels::accepts<kCpuAvx512>, kAvx512Channels, "needs an x86-64 build"},
    CausalConv1dUpdateKernel{"cpu_avx2_channels", DeviceKind::cpu, KernelClass::native,
                             simd_channels::accepts<kCpuAvx2>, kAvx2Channels, "needs an x86-64 build"},
    CausalConv1dUpdateKernel{"cpu_neon_channels", DeviceKind::cpu, KernelClass::native,
                             simd_channels::accepts<kCpuNeon>, kNeonChannels, "needs an AArch64 build"},
    CausalConv1dUpdateKernel{"cpu_plain_rows", DeviceKind::cpu, KernelClass::portable,
                             causal_conv1d_update_cpu_plain_rows::accepts, causal_conv1d_update_cpu_plain_rows::launch},
    CausalConv1dUpdateKernel{"cpu_reference", DeviceKind::cpu, KernelClass::reference,
                             causal_conv1d_update_cpu_reference::accepts, causal_conv1d_update_cpu_reference::launch},
};
std::array<KernelCounter, kKernels.size()> counters;

}  // namespace

CausalConv1dUpdateList causal_conv1d_update_list() { return {"causal_conv1d_update", kKernels, counters}; }

}  // namespace silt
