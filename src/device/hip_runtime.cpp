#include "device/hip_runtime.hpp"

#include <dlfcn.h>

#include <array>

namespace silt::hip {
namespace {

struct Found {
  void* library = nullptr;
  Runtime runtime;
  std::string missing;
};

/// A library that the process has loaded already (a framework brings its own) goes before one of the system.
void* open_library(std::string* name) {
  constexpr std::array kNames = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so",
                                 "/opt/rocm/lib/libamdhip64.so"};
  for (const int mode : {RTLD_NOW | RTLD_NOLOAD, RTLD_NOW}) {
    for (const char* candidate : kNames) {
      if (void* library = dlopen(candidate, mode); library != nullptr) {
        *name = candidate;
        return library;
      }
    }
  }
  return nullptr;
}

Found find_runtime() {
  Found found;
  Runtime& r = found.runtime;
  void* library = open_library(&r.name);
  found.library = library;
  if (library == nullptr) {
    found.missing = "no libamdhip64 (the HIP runtime of ROCm 6 or newer)";
    return found;
  }
  const auto bind = [&](auto& function, const char* symbol) {
    void* address = dlsym(library, symbol);
    if (address == nullptr && found.missing.empty()) {
      found.missing = fmt::format("{} is too old: has no {}, needs ROCm 6 or newer", r.name, symbol);
    }
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  };
  bind(r.get_device_properties, "hipGetDevicePropertiesR0600");
  bind(r.get_device_count, "hipGetDeviceCount");
  bind(r.runtime_get_version, "hipRuntimeGetVersion");
  bind(r.get_error_string, "hipGetErrorString");
  bind(r.get_last_error, "hipGetLastError");
  bind(r.get_device, "hipGetDevice");
  bind(r.set_device, "hipSetDevice");
  bind(r.malloc, "hipMalloc");
  bind(r.free, "hipFree");
  bind(r.memcpy, "hipMemcpy");
  bind(r.memcpy_async, "hipMemcpyAsync");
  bind(r.memcpy_2d_async, "hipMemcpy2DAsync");
  bind(r.stream_synchronize, "hipStreamSynchronize");
  bind(r.stream_is_capturing, "hipStreamIsCapturing");
  bind(r.thread_exchange_stream_capture_mode, "hipThreadExchangeStreamCaptureMode");
  bind(r.module_load_data, "hipModuleLoadData");
  bind(r.module_get_function, "hipModuleGetFunction");
  bind(r.module_launch_kernel, "hipModuleLaunchKernel");
  if (found.missing.empty() && r.runtime_get_version(&r.version) != kSuccess) r.version = 0;
  return found;
}

/// Never unloaded: kernels and memory of the process live in it.
const Found& found() {
  static const Found the = find_runtime();
  return the;
}

}  // namespace

const Runtime* runtime() { return found().missing.empty() ? &found().runtime : nullptr; }
const std::string& runtime_missing() { return found().missing; }
void* find_symbol(const char* name) { return runtime() == nullptr ? nullptr : dlsym(found().library, name); }

Status error(std::string_view what, Error code) {
  const Runtime* r = runtime();
  r->get_last_error();  // reported here; not left for the host program's next call
  const StatusCode kind = code == kOutOfMemory ? StatusCode::out_of_memory : StatusCode::device_error;
  return failed(kind, "hip: {}: {} (error {})", what, r->get_error_string(code), code);
}

DeviceScope::DeviceScope(int index) {
  const Runtime* r = runtime();
  error_ = r->get_device(&former_);
  changed_ = error_ == kSuccess && former_ != index;
  if (changed_) error_ = r->set_device(index);
}

DeviceScope::~DeviceScope() {
  if (changed_) runtime()->set_device(former_);
}

Status DeviceScope::status() const { return error_ == kSuccess ? Status() : error("device", error_); }

}  // namespace silt::hip
