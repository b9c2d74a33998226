// Makes a device current for a scope and the former one afterwards. Included where cuda_runtime.h is at hand.
#pragma once

#include <cuda_runtime.h>

#include "core/status.hpp"

namespace silt {

class CudaDeviceScope {
 public:
  explicit CudaDeviceScope(int index) {
    error_ = cudaGetDevice(&former_);
    changed_ = error_ == cudaSuccess && former_ != index;
    if (changed_) error_ = cudaSetDevice(index);
  }
  CudaDeviceScope(const CudaDeviceScope&) = delete;
  CudaDeviceScope& operator=(const CudaDeviceScope&) = delete;
  ~CudaDeviceScope() {
    if (changed_) cudaSetDevice(former_);
  }
  [[nodiscard]] Status status() const {
    if (error_ == cudaSuccess) return {};
    return {StatusCode::device_error, std::string("cuda: device: ") + cudaGetErrorString(error_)};
  }

 private:
  int former_ = 0;
  bool changed_ = false;
  cudaError_t error_ = cudaSuccess;
};

}  // namespace silt
