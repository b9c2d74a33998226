// Every kernel of attn_res_partials and attn_res_merge, fastest first. Order and presence are visible here; a kernel
// that is not built stays listed.
#include <array>

#include "attn_res/two_phase/cpu/cpu_reference.hpp"
#include "attn_res/two_phase/cpu/cpu_simd_rows.hpp"
#include "attn_res/two_phase/cuda/cuda_sm80_rows.hpp"
#include "attn_res/two_phase/cuda/cuda_sm90_direct.hpp"
#include "attn_res/two_phase/cuda/cuda_sm90_tensor.hpp"
#include "attn_res/two_phase/list.hpp"
#include "gpu/built.hpp"

namespace silt {
namespace {

namespace simd_rows = attn_res_two_phase_cpu_simd_rows;

#if defined(__x86_64__)
constexpr auto kAvx512Bf16Partials = simd_rows::partials_avx512bf16;
constexpr auto kAvx512Partials = simd_rows::partials_avx512;
constexpr auto kAvx2Partials = simd_rows::partials_avx2;
constexpr AttnResPartialsLaunch kNeonPartials = nullptr;
constexpr auto kAvx512Bf16Merge = simd_rows::merge_avx512bf16;
constexpr auto kAvx512Merge = simd_rows::merge_avx512;
constexpr auto kAvx2Merge = simd_rows::merge_avx2;
constexpr AttnResMergeLaunch kNeonMerge = nullptr;
#elif defined(__aarch64__)
constexpr AttnResPartialsLaunch kAvx512Bf16Partials = nullptr;
constexpr AttnResPartialsLaunch kAvx512Partials = nullptr;
constexpr AttnResPartialsLaunch kAvx2Partials = nullptr;
constexpr auto kNeonPartials = simd_rows::partials_neon;
constexpr AttnResMergeLaunch kAvx512Bf16Merge = nullptr;
constexpr AttnResMergeLaunch kAvx512Merge = nullptr;
constexpr AttnResMergeLaunch kAvx2Merge = nullptr;
constexpr auto kNeonMerge = simd_rows::merge_neon;
#endif
constexpr const char* kNeedsX86 = "needs an x86-64 build";
constexpr const char* kNeedsArm = "needs an AArch64 build";

constexpr std::array kPartials = {
    AttnResPartialsKernel{"cuda_sm90_tensor", DeviceKind::cuda, KernelClass::native,
                          attn_res_partials_cuda_sm90_tensor::accepts,
                          SILT_CUDA_LAUNCH(attn_res_partials_cuda_sm90_tensor::launch), kCudaNotBuilt,
                          attn_res_partials_cuda_sm90_tensor::describe},
    AttnResPartialsKernel{"cuda_sm80_rows", DeviceKind::cuda, KernelClass::portable,
                          attn_res_two_phase_cuda_sm80_rows::accepts_partials,
                          SILT_CUDA_LAUNCH(attn_res_two_phase_cuda_sm80_rows::launch_partials), kCudaNotBuilt},
    AttnResPartialsKernel{"cpu_avx512bf16_rows", DeviceKind::cpu, KernelClass::native,
                          simd_rows::accepts_partials<kCpuAvx512Bf16>, kAvx512Bf16Partials, kNeedsX86},
    AttnResPartialsKernel{"cpu_avx512_rows", DeviceKind::cpu, KernelClass::native,
                          simd_rows::accepts_partials<kCpuAvx512>, kAvx512Partials, kNeedsX86},
    AttnResPartialsKernel{"cpu_avx2_rows", DeviceKind::cpu, KernelClass::native, simd_rows::accepts_partials<kCpuAvx2>,
                          kAvx2Partials, kNeedsX86},
    AttnResPartialsKernel{"cpu_neon_rows", DeviceKind::cpu, KernelClass::native, simd_rows::accepts_partials<kCpuNeon>,
                          kNeonPartials, kNeedsArm},
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
    AttnResMergeKernel{"cpu_avx512bf16_rows", DeviceKind::cpu, KernelClass::native,
                       simd_rows::accepts_merge<kCpuAvx512Bf16>, kAvx512Bf16Merge, kNeedsX86},
    AttnResMergeKernel{"cpu_avx512_rows", DeviceKind::cpu, KernelClass::native, simd_rows::accepts_merge<kCpuAvx512>,
                       kAvx512Merge, kNeedsX86},
    AttnResMergeKernel{"cpu_avx2_rows", DeviceKind::cpu, KernelClass::native, simd_rows::accepts_merge<kCpuAvx2>,
                       kAvx2Merge, kNeedsX86},
    AttnResMergeKernel{"cpu_neon_rows", DeviceKind::cpu, KernelClass::native, simd_rows::accepts_merge<kCpuNeon>,
                       kNeonMerge, kNeedsArm},
    AttnResMergeKernel{"cpu_reference", DeviceKind::cpu, KernelClass::reference,
                       attn_res_two_phase_cpu_reference::accepts_merge, attn_res_two_phase_cpu_reference::launch_merge},
};
std::array<KernelCounter, kPartials.size()> partials_counters;
std::array<KernelCounter, kMerges.size()> merge_counters;

}  // namespace

AttnResPartialsList attn_res_partials_list() { return {"attn_res_partials", kPartials, partials_counters}; }
AttnResMergeList attn_res_merge_list() { return {"attn_res_merge", kMerges, merge_counters}; }

}  // namespace silt
