// What the launchers of both GPU backends share. Plain C++.
#pragma once

#include <string_view>

namespace silt::gpu {

/// Names for messages: "<operator>: kernel <name>: ...".
struct KernelName {
  std::string_view op;
  std::string_view kernel;
};

constexpr int kMostDevices = 64;

}  // namespace silt::gpu
