// What: events, free memory and copies of an AMD device, from the runtime that the library found.
#include "bench/hip/hip_protocol.hpp"

#include "core/status.hpp"
#include "device/hip_runtime.hpp"

namespace silt::bench::hip_gpu {
namespace {

using hip::Error;
using hip::kSuccess;

constexpr int kDeviceToDevice = 3;

/// Of the runtime, what the library itself has no use for.
struct Timing {
  Error (*mem_get_info)(size_t*, size_t*) = nullptr;
  Error (*memcpy_async)(void*, const void*, size_t, int, void*) = nullptr;
  Error (*event_create)(void**) = nullptr;
  Error (*event_destroy)(void*) = nullptr;
  Error (*event_record)(void*, void*) = nullptr;
  Error (*event_synchronize)(void*) = nullptr;
  Error (*event_elapsed_time)(float*, void*, void*) = nullptr;
  std::string missing;
};

const Timing& timing() {
  static const Timing found = [] {
    Timing t;
    const auto bind = [&](auto& function, const char* symbol) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(hip::find_symbol(symbol));
      if (function == nullptr) t.missing = symbol;
    };
    bind(t.mem_get_info, "hipMemGetInfo");
    bind(t.memcpy_async, "hipMemcpyAsync");
    bind(t.event_create, "hipEventCreate");
    bind(t.event_destroy, "hipEventDestroy");
    bind(t.event_record, "hipEventRecord");
    bind(t.event_synchronize, "hipEventSynchronize");
    bind(t.event_elapsed_time, "hipEventElapsedTime");
    return t;
  }();
  return found;
}

Status require_timing() {
  if (hip::runtime() == nullptr) return failed(StatusCode::device_error, "hip: {}", hip::runtime_missing());
  if (timing().missing.empty()) return {};
  return failed(StatusCode::device_error, "hip: {}: has no {}", hip::runtime()->name, timing().missing);
}

Status checked(std::string_view what, Error code) { return code == kSuccess ? Status() : hip::error(what, code); }

/// Two events, destroyed with it.
struct Events {
  Events() = default;
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  ~Events() {
    for (void* event : {start, stop}) {
      if (event != nullptr) timing().event_destroy(event);
    }
  }
  void* start = nullptr;
  void* stop = nullptr;
};

}  // namespace

std::string driver() {
  const hip::Runtime* r = hip::runtime();
  if (r == nullptr) return "none";
  return fmt::format("HIP {}.{}.{} ({})", r->version / 10'000'000, r->version / 100'000 % 100, r->version % 100'000,
                     r->name);
}

Status free_memory(Device device, int64_t* bytes) {
  SILT_TRY(require_timing());
  const hip::DeviceScope scope(device.index);
  SILT_TRY(scope.status());
  size_t free = 0;
  size_t total = 0;
  SILT_TRY(checked("free memory", timing().mem_get_info(&free, &total)));
  *bytes = static_cast<int64_t>(free);
  return {};
}

Status sample_eager(Device device, int64_t launches, gpu::LaunchSeries launch, double* us) {
  SILT_TRY(require_timing());
  const hip::DeviceScope scope(device.index);
  SILT_TRY(scope.status());
  const Timing& t = timing();
  Events events;
  SILT_TRY(checked("event", t.event_create(&events.start)));
  SILT_TRY(checked("event", t.event_create(&events.stop)));
  SILT_TRY(checked("event", t.event_record(events.start, nullptr)));
  for (int64_t i = 0; i < launches; ++i) SILT_TRY(launch(i, nullptr));
  SILT_TRY(checked("event", t.event_record(events.stop, nullptr)));
  SILT_TRY(checked("event", t.event_synchronize(events.stop)));
  float milliseconds = 0;
  SILT_TRY(checked("event", t.event_elapsed_time(&milliseconds, events.start, events.stop)));
  *us = static_cast<double>(milliseconds) * 1e3 / static_cast<double>(launches);
  return {};
}

Status launch_copy(void* target, const void* source, size_t bytes, Device device) {
  SILT_TRY(require_timing());
  const hip::DeviceScope scope(device.index);
  SILT_TRY(scope.status());
  return checked("copy", timing().memcpy_async(target, source, bytes, kDeviceToDevice, nullptr));
}

}  // namespace silt::bench::hip_gpu
