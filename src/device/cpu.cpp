// Reads the facts of the CPU this process runs on.
#include <unistd.h>

#include <fstream>
#include <string>

#include "silt/device.hpp"

#include "core/workers.hpp"

namespace silt {
namespace {

std::string model_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) {
      const size_t colon = line.find(": ");
      if (colon != std::string::npos) return line.substr(colon + 2);
    }
  }
  return "CPU";
}

/// The C library knows the caches of x86, the kernel those of other processors.
int64_t l2_bytes() {
  const int64_t known = sysconf(_SC_LEVEL2_CACHE_SIZE);
  if (known > 0) return known;
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index2/size");
  int64_t kib = 0;
  char unit = 0;
  return file >> kib >> unit && unit == 'K' ? kib * 1024 : 0;
}

uint32_t features() {
#if defined(__x86_64__)
  uint32_t found = 0;
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi") ||
      !__builtin_cpu_supports("bmi2")) {
    return 0;
  }
  found |= kCpuAvx2;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    found |= kCpuAvx512;
    if (__builtin_cpu_supports("avx512bf16")) found |= kCpuAvx512Bf16;
  }
  return found;
#elif defined(__aarch64__)
  return kCpuNeon;
#else
  return 0;
#endif
}

DeviceFacts read_cpu() {
  DeviceFacts facts;
  facts.name = model_name();
#if defined(__aarch64__)
  facts.vendor = Vendor::arm;
  facts.arch = "aarch64";
#else
  facts.arch = "x86-64";
#endif
  facts.processors = resolve_threads(0);
  facts.l2_bytes = l2_bytes();
  facts.cpu_features = features();
  return facts;
}

}  // namespace

const DeviceFacts& cpu_facts() {
  static const DeviceFacts facts = read_cpu();
  return facts;
}

}  // namespace silt
