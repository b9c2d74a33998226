// The words that CUDA and HIP spell differently. Every other header of this folder is included through what it offers.
#pragma once

#if defined(__HIPCC__)
#include <hip/hip_runtime.h>
#define SILT_GPU_HIP 1
#else
#include <cuda_runtime.h>
#define SILT_GPU_CUDA 1
#endif

#include <cstdint>

/// A helper of a kernel: on the device, always in line, so that its values stay in registers.
#define SILT_DEVICE __device__ __forceinline__
