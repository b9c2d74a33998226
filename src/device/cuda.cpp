// The CUDA backend: devices, memory and synchronisation through the runtime API, which is linked statically and finds
// the driver at run time. Without a driver or a device every function answers with the reason.
#include <cuda_runtime.h>

#include "core/status.hpp"
#include "device/backend.hpp"
#include "device/cuda_device.hpp"
#include "device/cuda_probe.hpp"

namespace silt::backend {
namespace {

Status error(std::string_view what, cudaError_t code) {
  cudaGetLastError();  // reported here; not left for the host program's next call
  const StatusCode kind = code == cudaErrorMemoryAllocation ? StatusCode::out_of_memory : StatusCode::device_error;
  return failed(kind, "cuda: {}: {} ({})", what, cudaGetErrorString(code), cudaGetErrorName(code));
}

struct Devices {
  int count = 0;
  std::string missing;
};

/// Read once: a process keeps the driver and the devices it started with.
const Devices& devices() {
  static const Devices found = [] {
    Devices made;
    const cudaError_t code = cudaGetDeviceCount(&made.count);
    if (code != cudaSuccess) {
      made.count = 0;
      cudaGetLastError();  // not this process's fault: leave no error behind for the host program
    }
    int driver = 0;
    if (made.count > 0) return made;
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
      made.missing = "no NVIDIA driver";
    } else if (code == cudaErrorNoDevice || code == cudaSuccess) {
      made.missing = "no NVIDIA device";
    } else {
      made.missing = fmt::format("{} (driver for CUDA {}.{}, library built with CUDA {}.{})", cudaGetErrorString(code),
                                 driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    }
    return made;
  }();
  return found;
}

/// This library's portable code runs there; the message names what it holds otherwise.
Status check_code(const cudaDeviceProp& properties) {
  cudaFuncAttributes attributes{};
  const cudaError_t code = cudaFuncGetAttributes(&attributes, cuda_probe());
  if (code == cudaSuccess) return {};
  cudaGetLastError();
  if (code != cudaErrorNoKernelImageForDevice && code != cudaErrorInvalidDeviceFunction) {
    return error(properties.name, code);
  }
  return failed(
      StatusCode::device_error,
      "cuda: {} is sm_{}{}: has no code for it, needs sm_80 or newer (this library holds sm_80 as PTX, sm_90a "
      "and sm_100f)",
      properties.name, properties.major, properties.minor);
}

const std::string& missing() { return devices().missing; }
int count() { return devices().count; }

Status read_facts(int index, DeviceFacts* facts) {
  cudaDeviceProp properties{};
  if (const cudaError_t code = cudaGetDeviceProperties(&properties, index); code != cudaSuccess) {
    return error("properties", code);
  }
  facts->name = properties.name;
  facts->kind = DeviceKind::cuda;
  facts->vendor = Vendor::nvidia;
  facts->arch_number = 10 * properties.major + properties.minor;
  facts->arch = fmt::format("sm_{}", facts->arch_number);
  facts->processors = properties.multiProcessorCount;
  facts->warp_lanes = properties.warpSize;
  facts->l2_bytes = properties.l2CacheSize;
  facts->shared_bytes_per_processor = static_cast<int64_t>(properties.sharedMemPerMultiprocessor);
  facts->shared_bytes_per_block = static_cast<int64_t>(properties.sharedMemPerBlockOptin);
  const CudaDeviceScope scope(index);
  SILT_TRY(scope.status());
  return check_code(properties);
}

Status allocate(int index, size_t bytes, void** data) {
  const CudaDeviceScope scope(index);
  SILT_TRY(scope.status());
  const cudaError_t code = cudaMalloc(data, bytes == 0 ? 1 : bytes);
  return code == cudaSuccess ? Status() : error(fmt::format("memory: {} bytes", bytes), code);
}

void release(int index, void* data) {
  const CudaDeviceScope scope(index);
  if (scope.status().ok()) cudaFree(data);
}

Status copy(int index, void* target, const void* source, size_t bytes, Copy direction) {
  const CudaDeviceScope scope(index);
  SILT_TRY(scope.status());
  const cudaMemcpyKind kind = direction == Copy::to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
  // cudaMemcpy returns before a copy from pageable host memory has landed; streams that do not wait for the default
  // stream could read too early.
  cudaError_t code = cudaMemcpy(target, source, bytes, kind);
  if (code == cudaSuccess) code = cudaStreamSynchronize(nullptr);
  return code == cudaSuccess ? Status() : error("copy", code);
}

Status synchronize(int index, void* stream) {
  const CudaDeviceScope scope(index);
  SILT_TRY(scope.status());
  const cudaError_t code = cudaStreamSynchronize(static_cast<cudaStream_t>(stream));
  return code == cudaSuccess ? Status() : error("synchronise", code);
}

Status is_captured(int index, void* stream, bool* captured) {
  const CudaDeviceScope scope(index);
  SILT_TRY(scope.status());
  cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
  const cudaError_t code = cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &state);
  // The default stream, which a captured one waits for: the same as far as the caller goes.
  const bool implicit = code == cudaErrorStreamCaptureImplicit;
  if (implicit) cudaGetLastError();
  *captured = implicit || state != cudaStreamCaptureStatusNone;
  return code == cudaSuccess || implicit ? Status() : error("capture", code);
}

/// Lets a thread use streams that are not captured, whatever capture is under way elsewhere.
class BesideCaptures {
 public:
  BesideCaptures() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;
  ~BesideCaptures() { cudaThreadExchangeStreamCaptureMode(&mode_); }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

Status read(int index, void* stream, void* target, const void* source, const Rows& rows) {
  const CudaDeviceScope scope(index);
  SILT_TRY(scope.status());
  const BesideCaptures beside;
  auto* const on = static_cast<cudaStream_t>(stream);
  cudaError_t code = cudaSuccess;
  if (rows.count == 1 || rows.step == rows.bytes) {
    code = cudaMemcpyAsync(target, source, rows.bytes * rows.count, cudaMemcpyDeviceToHost, on);
  } else {
    code = cudaMemcpy2DAsync(target, rows.bytes, source, rows.step, rows.bytes, rows.count, cudaMemcpyDeviceToHost, on);
  }
  if (code == cudaSuccess) code = cudaStreamSynchronize(on);
  return code == cudaSuccess ? Status() : error("read", code);
}

std::string about() { return {}; }

constexpr Backend kCuda{"cuda", missing,     count,       read_facts, allocate, release,
                        copy,   synchronize, is_captured, read,       about};

}  // namespace

const Backend& cuda_backend() { return kCuda; }

}  // namespace silt::backend
