// How a kernel list names a CUDA kernel in builds with and without nvcc. Plain C++.
#pragma once

#include <string_view>

/// The launcher where CUDA kernels are built, else null: the kernel stays listed, with kCudaNotBuilt as the reason.
#if defined(SILT_BUILT_CUDA)
#define SILT_CUDA_LAUNCH(function) (function)
#else
#define SILT_CUDA_LAUNCH(function) nullptr
#endif

namespace silt {

constexpr std::string_view kCudaNotBuilt = "needs nvcc 13 and SILT_CUDA=ON";

}  // namespace silt
