// What the library asks of a GPU backend: one table of functions each. Where a backend was not built or nothing
// answers, `missing` says why and the others are not called.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "silt/device.hpp"

namespace silt::backend {

enum class Copy { to_device, to_host };

/// `count` rows of `bytes` each, `step` bytes apart; what is between them is no part of it.
struct Rows {
  size_t bytes = 0;
  size_t count = 1;
  size_t step = 0;  ///< not looked at where there is one row
};

struct Backend {
  std::string_view name;
  /// Empty where kernels were built and a device answers; else the reason.
  const std::string& (*missing)() = nullptr;
  int (*device_count)() = nullptr;
  Status (*facts)(int index, DeviceFacts* facts) = nullptr;
  Status (*allocate)(int index, size_t bytes, void** data) = nullptr;
  void (*release)(int index, void* data) = nullptr;
  /// Blocks until the copy is done.
  Status (*copy)(int index, void* target, const void* source, size_t bytes, Copy direction) = nullptr;
  Status (*synchronize)(int index, void* stream) = nullptr;
  /// Whether a graph is being captured from the stream: nothing can wait for it meanwhile.
  Status (*is_captured)(int index, void* stream, bool* captured) = nullptr;
  /// Rows to the host, one behind the other, after everything that is on the stream; blocks until they are there. Other
  /// streams go on, and so does the capture of one.
  Status (*read)(int index, void* stream, void* target, const void* source, const Rows& rows) = nullptr;
  /// What there is to say besides the devices: versions, what code there is. May be empty.
  std::string (*about)() = nullptr;
};

const Backend& cuda_backend();
const Backend& hip_backend();
/// Null for the CPU.
const Backend* backend_of(DeviceKind kind);
/// An error with the reason where no device of it answers.
Status at_hand(const Backend& gpu);

}  // namespace silt::backend
