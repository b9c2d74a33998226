// Every kernel of kda_decode, fastest first. Order and presence are visible here; a kernel that is not built stays
// listed.
#include <array>

#include "gpu/built.hpp"
#include "kda/decode/cpu/cpu_plain_rows.hpp"
#include "kda/decode/cpu/cpu_reference.hpp"
#include "kda/decode/cpu/cpu_simd_heads.hpp"
#include "kda/decode/cuda/cuda_sm80_rows.hpp"
#include "kda/decode/cuda/cuda_sm90_heads.hpp"
#include "kda/decode/hip/hip_heads.hpp"
#include "kda/decode/list.hpp"

namespace silt {
namespace {

namespace simd_heads = kda_decode_cpu_simd_heads;

using KdaDecodeLaunch = decltype(KdaDecodeKernel::launch);
#if defined(__x86_64__)
constexpr KdaDecodeLaunch kAvx512Bf16Heads = simd_heads::launch_avx512bf16;
constexpr KdaDecodeLaunch kAvx512Heads = simd_heads::launch_avx512;
constexpr KdaDecodeLaunch kAvx2Heads = simd_heads::launch_avx2;
constexpr KdaDecodeLaunch kNeonHeads = nullptr;
#elif defined(__aarch64__)
constexpr KdaDecodeLaunch kAvx512Bf16Heads = nullptr;
constexpr KdaDecodeLaunch kAvx512Heads = nullptr;
constexpr KdaDecodeLaunch kAvx2Heads = nullptr;
constexpr KdaDecodeLaunch kNeonHeads = simd_heads::launch_neon;
#endif

constexpr std::array kKernels = {
    KdaDecodeKernel{"cuda_sm90_heads", DeviceKind::cuda, KernelClass::native, kda_decode_cuda_sm90_heads::accepts,
                    SILT_CUDA_LAUNCH(kda_decode_cuda_sm90_heads::launch), kCudaNotBuilt,
                    kda_decode_cuda_sm90_heads::plan},
    KdaDecodeKernel{"cuda_sm80_rows", DeviceKind::cuda, KernelClass::portable, kda_decode_cuda_sm80_rows::accepts,
                    SILT_CUDA_LAUNCH(kda_decode_cuda_sm80_rows::launch), kCudaNotBuilt},
    KdaDecodeKernel{"hip_gfx950_heads", DeviceKind::hip, KernelClass::native, kda_decode_hip_heads::accepts_gfx950,
                    SILT_HIP_GFX950_LAUNCH(kda_decode_hip_heads::launch_gfx950), kHipGfx950NotBuilt,
                    kda_decode_hip_heads::plan},
    KdaDecodeKernel{"hip_gfx942_heads", DeviceKind::hip, KernelClass::native, kda_decode_hip_heads::accepts_gfx942,
                    SILT_HIP_GFX942_LAUNCH(kda_decode_hip_heads::launch_gfx942), kHipGfx942NotBuilt,
                    kda_decode_hip_heads::plan},
    KdaDecodeKernel{"cpu_avx512bf16_heads", DeviceKind::cpu, KernelClass::native, simd_heads::accepts<kCpuAvx512Bf16>,
                    kAvx512Bf16Heads, "needs an x86-64 build"},
    KdaDecodeKernel{"cpu_avx512_heads", DeviceKind::cpu, KernelClass::native, simd_heads::accepts<kCpuAvx512>,
                    kAvx512Heads, "needs an x86-64 build"},
    KdaDecodeKernel{"cpu_avx2_heads", DeviceKind::cpu, KernelClass::native, simd_heads::accepts<kCpuAvx2>, kAvx2Heads,
                    "needs an x86-64 build"},
    KdaDecodeKernel{"cpu_neon_heads", DeviceKind::cpu, KernelClass::native, simd_heads::accepts<kCpuNeon>, kNeonHeads,
                    "needs an AArch64 build"},
    KdaDecodeKernel{"cpu_plain_rows", DeviceKind::cpu, KernelClass::portable, kda_decode_cpu_plain_rows::accepts,
                    kda_decode_cpu_plain_rows::launch},
    KdaDecodeKernel{"cpu_reference", DeviceKind::cpu, KernelClass::reference, kda_decode_cpu_reference::accepts,
                    kda_decode_cpu_reference::launch},
};
std::array<KernelCounter, kKernels.size()> counters;

}  // namespace

KdaDecodeList kda_decode_list() { return {"kda_decode", kKernels, counters}; }

}  // namespace silt
