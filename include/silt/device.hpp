// What the chooser knows of a device: a plain value, read from the machine or taken from a table of known devices.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "silt/export.hpp"
#include "silt/status.hpp"
#include "silt/tensor.hpp"

namespace silt {

enum class Vendor : int32_t { x86 = 0, arm = 1, nvidia = 2, amd = 3 };

/// CPU instruction sets that kernels ask for. Bits of DeviceFacts::cpu_features.
enum CpuFeature : uint32_t {
  kCpuAvx2 = 1u << 0,    ///< AVX2, FMA, BMI, BMI2
  kCpuAvx512 = 1u << 1,  ///< F, BW, CD, DQ, VL
  kCpuAvx512Bf16 = 1u << 2,
  kCpuNeon = 1u << 3,
};

struct DeviceFacts {
  std::string name;  ///< "h200", "zen4", or the marketing name of the device at hand
  DeviceKind kind = DeviceKind::cpu;
  Vendor vendor = Vendor::x86;
  std::string arch;         ///< "sm_90", "gfx942", "x86-64"
  int32_t arch_number = 0;  ///< NVIDIA: 10 * major + minor; AMD: the hexadecimal gfx number as an int, 0x942; CPU: 0
  int32_t processors = 1;   ///< SMs, compute units or CPU cores
  int32_t warp_lanes = 1;
  int64_t l2_bytes = 0;  ///< of the device (GPU) or of one core (CPU)
  int64_t shared_bytes_per_processor = 0;
  int64_t shared_bytes_per_block = 0;  ///< the opt-in maximum
  uint32_t cpu_features = 0;
  bool canned = false;  ///< from the table: a kernel that this library was built without still counts as there

  [[nodiscard]] bool has(CpuFeature feature) const { return (cpu_features & feature) != 0; }
};

/// The CPU this process runs on. `processors` is the number of cores the process may use.
SILT_API const DeviceFacts& cpu_facts();

/// Facts of a device at hand; device_error where there is no such device or no driver, with the reason.
SILT_API Status device_facts(Device device, DeviceFacts* facts);

/// Facts of a known device by name, for planning and tests: a100, h100, h200, b200, b300, mi300x, mi325x, mi355x, zen4,
/// spr, avx2, neon. invalid_argument lists the names.
SILT_API Status canned_facts(std::string_view name, DeviceFacts* facts);
SILT_API std::vector<std::string_view> canned_names();

/// One line: name, architecture, processors, caches, features.
SILT_API std::string to_string(const DeviceFacts& facts);

/// Several lines: every device at hand, which backends were built, and why a missing one is missing.
SILT_API std::string describe_devices();

/// "0.1.0"
SILT_API std::string_view version();

}  // namespace silt
