#include "gpu/hip/launch.hpp"

#include <map>
#include <mutex>

#include "core/status.hpp"
#include "device/facts.hpp"
#include "device/hip_objects.hpp"
#include "device/hip_recording.hpp"
#include "device/hip_runtime.hpp"

namespace silt::hip {
namespace {

Status launch_error(gpu::KernelName name, std::string_view what, Error code) {
  const Runtime* r = runtime();
  r->get_last_error();  // reported here; not left for the host program's next call
  return failed(StatusCode::device_error, "{}: kernel {}: {}: {} (error {})", name.op, name.kernel, what,
                r->get_error_string(code), code);
}

/// Modules of this process by code object and device. They stay loaded.
Status load_module(gpu::KernelName name, std::string_view object, int device, void** module) {
  static std::mutex mutex;
  static std::map<std::pair<std::string_view, int>, void*> modules;
  const std::lock_guard lock(mutex);
  void*& loaded = modules[{object, device}];
  if (loaded == nullptr) {
    const DeviceFacts* facts = nullptr;
    SILT_TRY(facts_of({DeviceKind::hip, device}, &facts));
    const CodeObject* code = find_code_object(object, facts->arch);
    if (code == nullptr) {
      return failed(StatusCode::device_error, "{}: kernel {}: no code for {}, needs one of {}", name.op, name.kernel,
                    facts->arch, built_isas());
    }
    const Error result = runtime()->module_load_data(&loaded, code->image.data());
    if (result != kSuccess) return launch_error(name, "loading", result);
  }
  *module = loaded;
  return {};
}

Status load(gpu::KernelName name, Function& function, int device, void** handle) {
  if (device < 0 || device >= gpu::kMostDevices) {
    return invalid("{}: device: has hip {}, needs 0..{}", name.op, device, gpu::kMostDevices - 1);
  }
  // Two threads that both come here ask the runtime twice and get the same.
  *handle = function.handle[device].load(std::memory_order_acquire);
  if (*handle != nullptr) return {};
  void* module = nullptr;
  SILT_TRY(load_module(name, function.object, device, &module));
  const Error result = runtime()->module_get_function(handle, module, function.symbol);
  if (result != kSuccess) return launch_error(name, function.symbol, result);
  function.handle[device].store(*handle, std::memory_order_release);
  return {};
}

}  // namespace

Status launch_raw(gpu::KernelName name, Function& function, const LaunchShape& shape, Device device, void* stream,
                  const void* args, size_t bytes) {
  if (shape.groups < 1 || shape.groups > most_groups(shape.threads)) {
    return failed(StatusCode::device_error, "{}: kernel {}: grid: has {} workgroups, needs 1..{}", name.op, name.kernel,
                  shape.groups, most_groups(shape.threads));
  }
  if (Recording* recording = Recording::now(); recording != nullptr) {
    const auto* begin = static_cast<const std::byte*>(args);
    recording->launches.push_back(
        {function.object, function.symbol, shape.groups, shape.threads, {begin, begin + bytes}});
    return {};
  }
  const DeviceScope scope(device.index);
  SILT_TRY(scope.status());
  void* handle = nullptr;
  SILT_TRY(load(name, function, device.index, &handle));
  void* extra[] = {kLaunchParamBuffer, const_cast<void*>(args), kLaunchParamSize, &bytes, kLaunchParamEnd};
  const Error result =
      runtime()->module_launch_kernel(handle, static_cast<unsigned>(shape.groups), 1, 1,
                                      static_cast<unsigned>(shape.threads), 1, 1, 0, stream, nullptr, extra);
  return result == kSuccess ? Status() : launch_error(name, "launch", result);
}

Status launch_facts(Device device, const DeviceFacts** facts) {
  if (Recording* recording = Recording::now(); recording != nullptr) {
    *facts = &recording->facts();
    return {};
  }
  return facts_of(device, facts);
}

}  // namespace silt::hip
