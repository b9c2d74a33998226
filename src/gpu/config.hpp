// The words of every CUDA header in this folder. AMD kernels have their own vocabulary (gpu/hip/device.hpp).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

/// A helper of a kernel: on the device, always in line, so that its values stay in registers.
#define SILT_DEVICE __device__ __forceinline__
