// The launch of an AMD kernel on the caller's stream. Host code.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "silt/choose.hpp"
#include "silt/device.hpp"
#include "silt/status.hpp"
#include "silt/tensor.hpp"

#include "gpu/kernel_name.hpp"

namespace silt::hip {

/// A compiled kernel: its code object's name, its symbol, and its handle per device once it has been loaded there. One
/// per kernel, static.
struct Function {
  std::string_view object;
  const char* symbol = nullptr;
  std::atomic<void*> handle[gpu::kMostDevices] = {};

  Function(std::string_view object_name, const char* kernel_symbol) : object(object_name), symbol(kernel_symbol) {}
};

struct LaunchShape {
  int64_t groups = 1;  ///< workgroups along x
  int threads = 64;    ///< of a workgroup
};

/// A launch counts its work items along x in 32 bits.
constexpr int64_t most_groups(int threads) { return 0xffffffffLL / threads; }

/// Launches on the device of the tensors with `args` as the kernel's argument block; the device that was current before
/// stays so for the caller. The first launch of a kernel on a device loads its code, which a stream that is being
/// captured may not allow: launch once before capturing.
Status launch_raw(gpu::KernelName name, Function& function, const LaunchShape& shape, Device device, void* stream,
                  const void* args, size_t bytes);

/// Facts of the device that a launch on `device` is for.
Status launch_facts(Device device, const DeviceFacts** facts);

template <class Args>
Status launch(gpu::KernelName name, Function& function, const LaunchShape& shape, Device device, const Launch& where,
              const Args& args) {
  return launch_raw(name, function, shape, device, where.stream, &args, sizeof args);
}

}  // namespace silt::hip
