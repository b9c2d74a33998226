#include "gpu/launch.hpp"

#include <limits>

#include "core/status.hpp"
#include "device/cuda_device.hpp"

namespace silt::gpu {
namespace {

Status error(KernelName name, std::string_view what, cudaError_t code) {
  cudaGetLastError();  // reported here; not left for the host program's next call
  return failed(StatusCode::device_error, "{}: kernel {}: {}: {} ({})", name.op, name.kernel, what,
                cudaGetErrorString(code), cudaGetErrorName(code));
}

}  // namespace

Status DeviceSetup::allow_shared(KernelName name, const void* kernel, int device, size_t bytes) {
  if (device < 0 || device >= kMostDevices) {
    return invalid("{}: device: has cuda {}, needs 0..{}", name.op, device, kMostDevices - 1);
  }
  std::atomic<size_t>& allowed = allowed_[device];
  if (allowed.load(std::memory_order_acquire) >= bytes) return {};
  const CudaDeviceScope scope(device);
  SILT_TRY(scope.status());
  // The attribute is set to the most the device offers, so that calls with different sizes never lower it.
  int most = 0;
  cudaError_t code = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  cudaFuncAttributes attributes{};
  if (code == cudaSuccess) code = cudaFuncGetAttributes(&attributes, kernel);
  const int dynamic = most - static_cast<int>(attributes.sharedSizeBytes);
  if (code == cudaSuccess) code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, dynamic);
  if (code != cudaSuccess) return error(name, "shared memory", code);
  allowed.store(static_cast<size_t>(dynamic), std::memory_order_release);
  return {};
}

Status launch_raw(KernelName name, const void* kernel, const LaunchShape& shape, Device device, void* stream,
                  void** params) {
  if (shape.grid < 1 || shape.grid > std::numeric_limits<int32_t>::max()) {
    return failed(StatusCode::device_error, "{}: kernel {}: grid: has {} blocks, needs 1..2147483647", name.op,
                  name.kernel, shape.grid);
  }
  const CudaDeviceScope scope(device.index);
  SILT_TRY(scope.status());
  cudaLaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (shape.dependent) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {1, static_cast<unsigned>(shape.cluster), 1};
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(shape.grid), static_cast<unsigned>(shape.cluster));
  config.blockDim = dim3(static_cast<unsigned>(shape.block));
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = attributes;
  config.numAttrs = count;
  const cudaError_t code = cudaLaunchKernelExC(&config, kernel, params);
  return code == cudaSuccess ? Status() : error(name, "launch", code);
}

}  // namespace silt::gpu
