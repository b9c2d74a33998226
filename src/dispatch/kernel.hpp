// One entry of an operator's kernel list, and the reason a predicate gives.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "silt/choose.hpp"

namespace silt {

/// Why a kernel does not take a problem: {field, has, needs}; an empty field accepts. Holds no memory of its own, so
/// that refusing costs a call nothing: the texts are literals.
struct Reason {
  std::string_view field{};
  std::string_view has_text{};
  int64_t has_number = 0;
  std::string_view needs{};

  [[nodiscard]] bool accepted() const { return field.empty(); }
};

constexpr Reason accept() { return {}; }
constexpr Reason refuse(std::string_view field, int64_t has, std::string_view needs) { return {field, {}, has, needs}; }
constexpr Reason refuse(std::string_view field, std::string_view has, std::string_view needs) {
  return {field, has, 0, needs};
}
std::string to_string(const Reason& reason);

/// How far a kernel is from the best that its device allows. Taking a slower class than the list offers for the device
/// counts as a fallback.
enum class KernelClass : int32_t { native = 0, portable = 1, reference = 2 };

template <class Problem, class Args>
struct Kernel {
  std::string_view name;  ///< <backend>_<isa>_<idea>
  DeviceKind device = DeviceKind::cpu;
  KernelClass speed = KernelClass::native;
  /// Pure: what the kernel computes right, for this problem on a device with these facts. The device kind is checked by
  /// the chooser.
  Reason (*accepts)(const Problem&, const DeviceFacts&) = nullptr;
  Status (*launch)(const Problem&, const Args&, const Launch&) = nullptr;  ///< null where not built
  std::string_view not_built{};                                            ///< why, where launch is null
  std::string (*plan)(const Problem&, const DeviceFacts&) = nullptr;       ///< the configuration taken; may be null
};

struct KernelCounter {
  std::atomic<uint64_t> runs{0};
  std::atomic<uint64_t> fallbacks{0};
  std::atomic<bool> warned{false};
};

/// An operator's kernels in order of preference, with one counter each.
template <class Problem, class Args>
struct KernelList {
  std::string_view op;
  std::span<const Kernel<Problem, Args>> kernels;
  std::span<KernelCounter> counters;
};

}  // namespace silt
