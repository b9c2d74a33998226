#include "silt/device.hpp"

#include <fmt/format.h>

#include "core/status.hpp"
#include "device/backend.hpp"
#include "device/facts.hpp"

namespace silt {
namespace {

std::string feature_names(uint32_t features) {
  std::string names;
  const auto add = [&](CpuFeature feature, std::string_view name) {
    if ((features & feature) != 0) names += fmt::format("{}{}", names.empty() ? "" : " ", name);
  };
  add(kCpuAvx2, "avx2");
  add(kCpuAvx512, "avx512");
  add(kCpuAvx512Bf16, "avx512_bf16");
  add(kCpuNeon, "neon");
  return names.empty() ? "no SIMD that kernels ask for" : names;
}

struct CachedFacts {
  Status status;
  DeviceFacts facts;
};

std::vector<CachedFacts> read_devices(const backend::Backend& gpu) {
  std::vector<CachedFacts> found(static_cast<size_t>(gpu.device_count()));
  for (size_t i = 0; i < found.size(); ++i) found[i].status = gpu.facts(static_cast<int>(i), &found[i].facts);
  return found;
}

/// Read once: a process keeps the drivers and the devices it started with.
const std::vector<CachedFacts>& devices_of(const backend::Backend& gpu) {
  if (&gpu == &backend::cuda_backend()) {
    static const std::vector<CachedFacts> cuda = read_devices(backend::cuda_backend());
    return cuda;
  }
  static const std::vector<CachedFacts> hip = read_devices(backend::hip_backend());
  return hip;
}

}  // namespace

const backend::Backend* backend::backend_of(DeviceKind kind) {
  if (kind == DeviceKind::cuda) return &cuda_backend();
  return kind == DeviceKind::hip ? &hip_backend() : nullptr;
}

Status backend::at_hand(const Backend& gpu) {
  if (gpu.missing().empty()) return {};
  return failed(StatusCode::device_error, "{}: {}", gpu.name, gpu.missing());
}

Status facts_of(Device device, const DeviceFacts** facts) {
  if (device.kind == DeviceKind::cpu) {
    if (device.index != 0) return invalid("device: has cpu {}, needs cpu 0", device.index);
    *facts = &cpu_facts();
    return {};
  }
  const backend::Backend* backend = backend::backend_of(device.kind);
  if (backend == nullptr) return invalid("device: has kind {}, needs 0..2", static_cast<int>(device.kind));
  const backend::Backend& gpu = *backend;
  SILT_TRY(backend::at_hand(gpu));
  const auto& devices = devices_of(gpu);
  if (device.index < 0 || static_cast<size_t>(device.index) >= devices.size()) {
    return invalid("device: has {} {}, needs 0..{}", gpu.name, device.index, devices.size() - 1);
  }
  const CachedFacts& entry = devices[static_cast<size_t>(device.index)];
  SILT_TRY(entry.status);
  *facts = &entry.facts;
  return {};
}

Status device_facts(Device device, DeviceFacts* facts) {
  const DeviceFacts* found = nullptr;
  SILT_TRY(facts_of(device, &found));
  *facts = *found;
  return {};
}

std::string to_string(const DeviceFacts& facts) {
  if (facts.kind == DeviceKind::cpu) {
    return fmt::format("{} ({}, {} cores, {} KiB L2 a core, {})", facts.name, facts.arch, facts.processors,
                       facts.l2_bytes / 1024, feature_names(facts.cpu_features));
  }
  return fmt::format("{} ({}, {} {}, {} MiB L2, {} KiB shared memory each)", facts.name, facts.arch, facts.processors,
                     facts.vendor == Vendor::nvidia ? "SMs" : "CUs", facts.l2_bytes >> 20,
                     facts.shared_bytes_per_processor >> 10);
}

std::string describe_devices() {
  std::string text = fmt::format("cpu   {}\n", to_string(cpu_facts()));
  for (const backend::Backend* gpu : {&backend::cuda_backend(), &backend::hip_backend()}) {
    const auto& devices = devices_of(*gpu);
    for (size_t i = 0; i < devices.size(); ++i) {
      text += fmt::format("{:<5} {}: {}\n", gpu->name, i,
                          devices[i].status.ok() ? to_string(devices[i].facts) : devices[i].status.message());
    }
    if (devices.empty()) text += fmt::format("{:<5} {}\n", gpu->name, gpu->missing());
    if (const std::string about = gpu->about(); !about.empty()) text += fmt::format("{:<5} {}\n", "", about);
  }
  return text;
}

std::string_view version() {
  static const std::string text = fmt::format("{}.{}.{}", SILT_VERSION_MAJOR, SILT_VERSION_MINOR, SILT_VERSION_PATCH);
  return text;
}

}  // namespace silt
