// CUDA errors as statuses.
#pragma once

#include <cuda_runtime.h>

#include "core/status.hpp"

namespace silt::bench::gpu {

inline Status cuda_status(const char* call, cudaError_t error) {
  if (error == cudaSuccess) return {};
  return failed(StatusCode::device_error, "cuda: {}: {}", call, cudaGetErrorString(error));
}

}  // namespace silt::bench::gpu

/// Leaves the function with the status of a CUDA call that failed.
#define SILT_CUDA_TRY(call) SILT_TRY(::silt::bench::gpu::cuda_status(#call, call))
