// The launch of a CUDA kernel on the caller's stream: attributes, device, and the error as a status. Host code.
#pragma once

#include <cuda_runtime.h>

#include <atomic>

#include "silt/choose.hpp"
#include "silt/status.hpp"
#include "silt/tensor.hpp"

#include "gpu/kernel_name.hpp"

namespace silt::gpu {

struct LaunchShape {
  int64_t grid = 1;  ///< blocks (or clusters) along x; every count that grows with the batch goes here
  int block = 1;     ///< threads
  /// Blocks of a cluster, along y; 0: none. A kernel that speaks to its cluster asks for one even if it is of one
  /// block: without the attribute its cluster instructions are illegal.
  int cluster = 0;
  size_t shared_bytes = 0;
  bool dependent = false;  ///< programmatic dependent launch: the kernel calls dependency_wait before it reads
};

/// What a kernel needs once per device before its first launch: more dynamic shared memory than the default 48 KiB. One
/// per kernel, static; the flag saves a driver call, two threads that both make it do no harm.
class DeviceSetup {
 public:
  Status allow_shared(KernelName name, const void* kernel, int device, size_t bytes);

 private:
  std::atomic<size_t> allowed_[kMostDevices] = {};
};

/// Launches on the device of the tensors; the device that was current before stays so for the caller.
Status launch_raw(KernelName name, const void* kernel, const LaunchShape& shape, Device device, void* stream,
                  void** params);

/// `kernel(params...)` with arguments of exactly its parameter types.
template <class... Params>
Status launch(KernelName name, void (*kernel)(Params...), const LaunchShape& shape, Device device, const Launch& where,
              Params... params) {
  void* pointers[] = {static_cast<void*>(&params)...};
  return launch_raw(name, reinterpret_cast<const void*>(kernel), shape, device, where.stream, pointers);
}

}  // namespace silt::gpu
