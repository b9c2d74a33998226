// Every kernel of kda_prefill, fastest first. Order and presence are visible here; a kernel that is not built
// stays listed.
#include <array>

#include "kda/prefill/cpu/cpu_plain_rows.hpp"
#include "kda/prefill/cpu/cpu_reference.hpp"
#include "kda/prefill/cpu/cpu_simd_chunk16.hpp"
#include "kda/prefill/cpu/cpu_simd_tokens.hpp"
#include "kda/prefill/list.hpp"

namespace silt {
namespace {

namespace simd_chunk16 = kda_prefill_cpu_simd_chunk16;
namespace simd_tokens = kda_prefill_cpu_simd_tokens;

using KdaPrefillLaunch = decltype(KdaPrefillKernel::launch);
#if defined(__x86_64__)
constexpr KdaPrefillLaunch kAvx512Bf16Chunk16 = simd_chunk16::launch_avx512bf16;
constexpr KdaPrefillLaunch kAvx512Chunk16 = simd_chunk16::launch_avx512;
constexpr KdaPrefillLaunch kAvx2Chunk16 = simd_chunk16::launch_avx2;
constexpr KdaPrefillLaunch kNeonChunk16 = nullptr;
constexpr KdaPrefillLaunch kAvx512Bf16Tokens = simd_tokens::launch_avx512bf16;
constexpr KdaPrefillLaunch kAvx512Tokens = simd_tokens::launch_avx512;
constexpr KdaPrefillLaunch kAvx2Tokens = simd_tokens::launch_avx2;
constexpr KdaPrefillLaunch kNeonTokens = nullptr;
#elif defined(__aarch64__)
constexpr KdaPrefillLaunch kAvx512Bf16Chunk16 = nullptr;
constexpr KdaPrefillLaunch kAvx512Chunk16 = nullptr;
constexpr KdaPrefillLaunch kAvx2Chunk16 = nullptr;
constexpr KdaPrefillLaunch kNeonChunk16 = simd_chunk16::launch_neon;
constexpr KdaPrefillLaunch kAvx512Bf16Tokens = nullptr;
constexpr KdaPrefillLaunch kAvx512Tokens = nullptr;
constexpr KdaPrefillLaunch kAvx2Tokens = nullptr;
constexpr KdaPrefillLaunch kNeonTokens = simd_tokens::launch_neon;
#endif

constexpr std::array kKernels = {
    KdaPrefillKernel{"cpu_avx512bf16_chunk16", DeviceKind::cpu, KernelClass::native,
                     simd_chunk16::accepts<kCpuAvx512Bf16>, kAvx512Bf16Chunk16, "needs an x86-64 build",
                     simd_chunk16::plan},
    KdaPrefillKernel{"cpu_avx512_chunk16", DeviceKind::cpu, KernelClass::native, simd_chunk16::accepts<kCpuAvx512>,
                     kAvx512Chunk16, "needs an x86-64 build", simd_chunk16::plan},
    KdaPrefillKernel{"cpu_avx2_chunk16", DeviceKind::cpu, KernelClass::native, simd_chunk16::accepts<kCpuAvx2>,
                     kAvx2Chunk16, "needs an x86-64 build", simd_chunk16::plan},
    KdaPrefillKernel{"cpu_neon_chunk16", DeviceKind::cpu, KernelClass::native, simd_chunk16::accepts<kCpuNeon>,
                     kNeonChunk16, "needs an AArch64 build", simd_chunk16::plan},
    KdaPrefillKernel{"cpu_avx512bf16_tokens", DeviceKind::cpu, KernelClass::native,
                     simd_tokens::accepts<kCpuAvx512Bf16>, kAvx512Bf16Tokens, "needs an x86-64 build"},
    KdaPrefillKernel{"cpu_avx512_tokens", DeviceKind::cpu, KernelClass::native, simd_tokens::accepts<kCpuAvx512>,
                     kAvx512Tokens, "needs an x86-64 build"},
    KdaPrefillKernel{"cpu_avx2_tokens", DeviceKind::cpu, KernelClass::native, simd_tokens::accepts<kCpuAvx2>,
                     kAvx2Tokens, "needs an x86-64 build"},
    KdaPrefillKernel{"cpu_neon_tokens", DeviceKind::cpu, KernelClass::native, simd_tokens::accepts<kCpuNeon>,
                     kNeonTokens, "needs an AArch64 build"},
    KdaPrefillKernel{"cpu_plain_rows", DeviceKind::cpu, KernelClass::portable, kda_prefill_cpu_plain_rows::accepts,
                     kda_prefill_cpu_plain_rows::launch},
    KdaPrefillKernel{"cpu_reference", DeviceKind::cpu, KernelClass::reference, kda_prefill_cpu_reference::accepts,
                     kda_prefill_cpu_reference::launch},
};
std::array<KernelCounter, kKernels.size()> counters;

}  // namespace

KdaPrefillList kda_prefill_list() { return {"kda_prefill", kKernels, counters}; }

}  // namespace silt
