#include "model/cpu/cpu_parts.hpp"

#include <atomic>
#include <vector>

namespace silt {
namespace {

std::vector<const CpuParts*> find_parts() {
  std::vector<const CpuParts*> here;
  const auto offer = [&](const CpuParts& parts) {
    if ((cpu_facts().cpu_features & parts.features) == parts.features) here.push_back(&parts);
  };
#if defined(__x86_64__)
  offer(cpu_avx512bf16_parts());
  offer(cpu_avx512_parts());
  offer(cpu_avx2_parts());
#elif defined(__aarch64__)
  offer(cpu_neon_parts());
#endif
  offer(cpu_plain_parts());
  return here;
}

std::atomic<const CpuParts*> in_use{nullptr};

}  // namespace

std::span<const CpuParts* const> cpu_parts_here() {
  static const std::vector<const CpuParts*> here = find_parts();
  return here;
}

const CpuParts& cpu_parts() {
  const CpuParts* parts = in_use.load(std::memory_order_relaxed);
  return parts != nullptr ? *parts : *cpu_parts_here()[0];
}

ForceCpuParts::ForceCpuParts(const CpuParts& parts) : before_(in_use.exchange(&parts)) {}
ForceCpuParts::~ForceCpuParts() { in_use.store(before_); }

}  // namespace silt
