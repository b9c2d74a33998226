// Facts of known devices. Figures are the vendors' published ones.
#include <fmt/format.h>

#include <array>

#include "silt/device.hpp"

namespace silt {
namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;

DeviceFacts nvidia(std::string_view name, int arch, int sms, int64_t l2, int64_t shared_per_sm) {
  DeviceFacts facts;
  facts.name = name;
  facts.kind = DeviceKind::cuda;
  facts.vendor = Vendor::nvidia;
  facts.arch = fmt::format("sm_{}", arch);
  facts.arch_number = arch;
  facts.processors = sms;
  facts.warp_lanes = 32;
  facts.l2_bytes = l2;
  facts.shared_bytes_per_processor = shared_per_sm;
  facts.shared_bytes_per_block = shared_per_sm - kKiB;  // the driver keeps 1 KiB of every block
  return facts;
}

DeviceFacts amd(std::string_view name, int arch, int units, int64_t l2, int64_t lds) {
  DeviceFacts facts;
  facts.name = name;
  facts.kind = DeviceKind::hip;
  facts.vendor = Vendor::amd;
  facts.arch = fmt::format("gfx{:x}", arch);
  facts.arch_number = arch;
  facts.processors = units;
  facts.warp_lanes = 64;
  facts.l2_bytes = l2;
  facts.shared_bytes_per_processor = lds;
  facts.shared_bytes_per_block = lds;
  return facts;
}

DeviceFacts cpu(std::string_view name, Vendor vendor, std::string_view arch, int cores, int64_t l2, uint32_t features) {
  DeviceFacts facts;
  facts.name = name;
  facts.vendor = vendor;
  facts.arch = arch;
  facts.processors = cores;
  facts.l2_bytes = l2;
  facts.cpu_features = features;
  return facts;
}

const auto& table() {
  constexpr uint32_t kAvx512All = kCpuAvx2 | kCpuAvx512 | kCpuAvx512Bf16;
  static const std::array all = {
      nvidia("a100", 80, 108, 40 * kMiB, 164 * kKiB),
      nvidia("h100", 90, 132, 50 * kMiB, 228 * kKiB),
      nvidia("h200", 90, 132, 60 * kMiB, 228 * kKiB),
      nvidia("b200", 100, 148, 126 * kMiB, 228 * kKiB),
      nvidia("b300", 103, 148, 126 * kMiB, 228 * kKiB),
      amd("mi300x", 0x942, 304, 4 * kMiB, 64 * kKiB),
      amd("mi325x", 0x942, 304, 4 * kMiB, 64 * kKiB),
      amd("mi355x", 0x950, 256, 4 * kMiB, 160 * kKiB),
      cpu("zen4", Vendor::x86, "x86-64", 16, 1 * kMiB, kAvx512All),
      cpu("spr", Vendor::x86, "x86-64", 32, 2 * kMiB, kAvx512All),
      cpu("avx2", Vendor::x86, "x86-64", 8, 512 * kKiB, kCpuAvx2),
      cpu("neon", Vendor::arm, "aarch64", 8, 1 * kMiB, kCpuNeon),
  };
  return all;
}

}  // namespace

std::vector<std::string_view> canned_names() {
  std::vector<std::string_view> names;
  for (const DeviceFacts& facts : table()) names.push_back(facts.name);
  return names;
}

Status canned_facts(std::string_view name, DeviceFacts* facts) {
  std::string known;
  for (const DeviceFacts& entry : table()) {
    if (entry.name == name) {
      *facts = entry;
      facts->canned = true;
      return {};
    }
    known += fmt::format("{}{}", known.empty() ? "" : ", ", entry.name);
  }
  return {StatusCode::invalid_argument, fmt::format("device: has \"{}\", needs one of {}", name, known)};
}

}  // namespace silt
