// CUDA errors as statuses. No fmt here: nvcc's front end does not compile its consteval format strings.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "silt/status.hpp"

namespace silt::bench::gpu {

inline Status cuda_status(const char* call, cudaError_t error) {
  if (error == cudaSuccess) return {};
  return {StatusCode::device_error, std::string("cuda: ") + call + ": " + cudaGetErrorString(error)};
}

}  // namespace silt::bench::gpu

/// Leaves the function with a status that is not ok.
#define SILT_BENCH_TRY(expression)                                                    \
  if (::silt::Status bench_status = (expression); !bench_status.ok()) return bench_status
/// The same for a CUDA call.
#define SILT_CUDA_TRY(call) SILT_BENCH_TRY(::silt::bench::gpu::cuda_status(#call, call))
