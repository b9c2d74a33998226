// How a kernel list names a GPU kernel in builds with and without its compiler. Plain C++.
#pragma once

#include <string_view>

/// The launcher where CUDA kernels are built, else null: the kernel stays listed, with kCudaNotBuilt as the reason.
#if defined(SILT_BUILT_CUDA)
#define SILT_CUDA_LAUNCH(function) (function)
#else
#define SILT_CUDA_LAUNCH(function) nullptr
#endif

/// The same per architecture of AMD.
#if defined(SILT_BUILT_HIP_GFX942)
#define SILT_HIP_GFX942_LAUNCH(function) (function)
#else
#define SILT_HIP_GFX942_LAUNCH(function) nullptr
#endif
#if defined(SILT_BUILT_HIP_GFX950)
#define SILT_HIP_GFX950_LAUNCH(function) (function)
#else
#define SILT_HIP_GFX950_LAUNCH(function) nullptr
#endif

namespace silt {

constexpr std::string_view kCudaNotBuilt = "needs nvcc 13 and SILT_CUDA=ON";
constexpr std::string_view kHipGfx942NotBuilt = "needs clang >= 19 with lld, and SILT_HIP";
constexpr std::string_view kHipGfx950NotBuilt = "needs clang >= 20 with lld, and SILT_HIP";

}  // namespace silt
