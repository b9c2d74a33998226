// What a test of an operator walks: every built kernel with a device at hand that it can run on.
#pragma once

#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "silt/check.hpp"
#include "silt/choose.hpp"
#include "silt/device.hpp"

namespace silt {

struct KernelHere {
  std::string kernel;
  Device device;
};

/// Whether the kernel takes any line of the standing check on this device; a CPU without its instructions takes none.
inline bool runs_on(std::string_view op, std::string_view kernel, const DeviceFacts& facts) {
  for (const std::string& line : check_lines(op)) {
    Explanation explanation;
    if (explain(line, facts, Policy::require(kernel), &explanation).ok()) return true;
  }
  return false;
}

inline std::vector<KernelHere> kernels_here(std::string_view op) {
  std::vector<KernelHere> all;
  for (const KernelInfo& info : kernels(op)) {
    const Device device{info.device, 0};
    DeviceFacts facts;
    if (info.built && device_facts(device, &facts).ok() && runs_on(op, info.name, facts))
      all.push_back({std::string(info.name), device});
  }
  return all;
}

/// Whether the kernels of a device read and write memory of the host: the CPU, and the stand-in for an AMD device.
inline bool in_host_memory(Device device) {
  DeviceFacts facts;
  return device.kind == DeviceKind::cpu || (device_facts(device, &facts).ok() && facts.name.starts_with("stand-in"));
}

/// How often `kernel` of `op` has run: the proof that the named one did.
inline uint64_t runs_of(std::string_view op, std::string_view kernel) {
  for (const KernelInfo& info : kernels(op)) {
    if (info.name == kernel) return info.runs;
  }
  return 0;
}

/// A test name: kernel and problem line with everything but letters and digits as '_', without the operator's name.
inline std::string test_name(std::string_view kernel, std::string_view line) {
  std::string name(kernel);
  const size_t space = line.find(' ');
  if (space != std::string_view::npos) name += line.substr(space);
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

}  // namespace silt
