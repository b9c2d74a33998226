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

const std::vector<CachedFacts>& cuda_devices() {
  static const std::vector<CachedFacts> devices = [] {
    std::vector<CachedFacts> found(static_cast<size_t>(backend::cuda_device_count()));
    for (size_t i = 0; i < found.size(); ++i) {
      found[i].status = backend::cuda_facts(static_cast<int>(i), &found[i].facts);
    }
    return found;
  }();
  return devices;
}

}  // namespace

Status facts_of(Device device, const DeviceFacts** facts) {
  if (device.kind == DeviceKind::cpu) {
    if (device.index != 0) return invalid("device: has cpu {}, needs cpu 0", device.index);
    *facts = &cpu_facts();
    return {};
  }
  if (device.kind == DeviceKind::cuda) {
    const auto& devices = cuda_devices();
    if (devices.empty()) return {StatusCode::device_error, "cuda: " + backend::cuda_missing()};
    if (device.index < 0 || static_cast<size_t>(device.index) >= devices.size()) {
      return invalid("device: has cuda {}, needs 0..{}", device.index, devices.size() - 1);
    }
    const CachedFacts& entry = devices[static_cast<size_t>(device.index)];
    SILT_TRY(entry.status);
    *facts = &entry.facts;
    return {};
  }
  return {StatusCode::device_error, "hip: not built"};
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
  const auto& devices = cuda_devices();
  for (size_t i = 0; i < devices.size(); ++i) {
    text += fmt::format("cuda  {}: {}\n", i,
                        devices[i].status.ok() ? to_string(devices[i].facts) : devices[i].status.message());
  }
  if (devices.empty()) text += fmt::format("cuda  {}\n", backend::cuda_missing());
  text += "hip   not built\n";
  return text;
}

std::string_view version() {
  static const std::string text = fmt::format("{}.{}.{}", SILT_VERSION_MAJOR, SILT_VERSION_MINOR, SILT_VERSION_PATCH);
  return text;
}

}  // namespace silt
