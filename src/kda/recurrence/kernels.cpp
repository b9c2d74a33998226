// Every kernel of kda_recurrence, fastest first. Order and presence are visible here; a kernel that is not built
// stays listed.
#include <array>

#include "gpu/built.hpp"
#include "kda/recurrence/cpu/cpu_plain_rows.hpp"
#include "kda/recurrence/cpu/cpu_reference.hpp"
#include "kda/recurrence/cpu/cpu_simd_heads.hpp"
#include "kda/recurrence/cuda/cuda_sm80_rows.hpp"
#include "kda/recurrence/hip/hip_rows.hpp"
#include "kda/recurrence/list.hpp"

namespace silt {
namespace {

namespace simd_heads = kda_recurrence_cpu_simd_heads;

using KdaRecurrenceLaunch = decltype(KdaRecurrenceKernel::launch);
#if defined(__x86_64__)
constexpr KdaRecurrenceLaunch kAvx512Bf16Heads = simd_heads::launch_avx512bf16;
constexpr KdaRecurrenceLaunch kAvx512Heads = simd_heads::launch_avx512;
constexpr KdaRecurrenceLaunch kAvx2Heads = simd_heads::launch_avx2;
constexpr KdaRecurrenceLaunch kNeonHeads = nullptr;
#elif defined(__aarch64__)
constexpr KdaRecurrenceLaunch kAvx512Bf16Heads = nullptr;
constexpr KdaRecurrenceLaunch kAvx512Heads = nullptr;
constexpr KdaRecurrenceLaunch kAvx2Heads = nullptr;
constexpr KdaRecurrenceLaunch kNeonHeads = simd_heads::launch_neon;
#endif

constexpr std::array kKernels = {
    KdaRecurrenceKernel{"cuda_sm80_rows", DeviceKind::cuda, KernelClass::portable,
                        kda_recurrence_cuda_sm80_rows::accepts, SILT_CUDA_LAUNCH(kda_recurrence_cuda_sm80_rows::launch),
                        kCudaNotBuilt},
    KdaRecurrenceKernel{"hip_gfx950_rows", DeviceKind::hip, KernelClass::native,
                        kda_recurrence_hip_rows::accepts_gfx950,
                        SILT_HIP_GFX950_LAUNCH(kda_recurrence_hip_rows::launch_gfx950), kHipGfx950NotBuilt,
                        kda_recurrence_hip_rows::plan},
    KdaRecurrenceKernel{"hip_gfx942_rows", DeviceKind::hip, KernelClass::native,
                        kda_recurrence_hip_rows::accepts_gfx942,
                        SILT_HIP_GFX942_LAUNCH(kda_recurrence_hip_rows::launch_gfx942), kHipGfx942NotBuilt,
                        kda_recurrence_hip_rows::plan},
    KdaRecurrenceKernel{"cpu_avx512bf16_heads", DeviceKind::cpu, KernelClass::native,
                        simd_heads::accepts<kCpuAvx512Bf16>, kAvx512Bf16Heads, "needs an x86-64 build"},
    KdaRecurrenceKernel{"cpu_avx512_heads", DeviceKind::cpu, KernelClass::native, simd_heads::accepts<kCpuAvx512>,
                        kAvx512Heads, "needs an x86-64 build"},
    KdaRecurrenceKernel{"cpu_avx2_heads", DeviceKind::cpu, KernelClass::native, simd_heads::accepts<kCpuAvx2>,
                        kAvx2Heads, "needs an x86-64 build"},
    KdaRecurrenceKernel{"cpu_neon_heads", DeviceKind::cpu, KernelClass::native, simd_heads::accepts<kCpuNeon>,
                        kNeonHeads, "needs an AArch64 build"},
    KdaRecurrenceKernel{"cpu_plain_rows", DeviceKind::cpu, KernelClass::portable,
                        kda_recurrence_cpu_plain_rows::accepts, kda_recurrence_cpu_plain_rows::launch},
    KdaRecurrenceKernel{"cpu_reference", DeviceKind::cpu, KernelClass::reference, kda_recurrence_cpu_reference::accepts,
                        kda_recurrence_cpu_reference::launch},
};
std::array<KernelCounter, kKernels.size()> counters;

}  // namespace

KdaRecurrenceList kda_recurrence_list() { return {"kda_recurrence", kKernels, counters}; }

}  // namespace silt
