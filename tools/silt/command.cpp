#include "command.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <utility>

namespace silt::cli {
namespace {

std::string_view kind_name(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cpu:
      return "cpu";
    case DeviceKind::cuda:
      return "cuda";
    case DeviceKind::hip:
      return "hip";
  }
  return "unknown";
}

}  // namespace

int complain(std::string_view command, std::string_view text, Exit exit) {
  fmt::print(stderr, "silt {}: {}\n", command, text);
  return exit;
}

int complain(std::string_view command, const Status& status) {
  const bool use = status.code() == StatusCode::invalid_argument || status.code() == StatusCode::io_error;
  return complain(command, status.message(), use ? kWrongUse : kWrongResult);
}

int complain_of_output(int error) {
  static bool told = false;
  if (!std::exchange(told, true)) {
    std::fprintf(stderr, "silt: standard output: cannot be written: %s\n", std::strerror(error));
  }
  return kWrongResult;
}

std::string joined(const std::vector<std::string_view>& names, std::string_view separator) {
  std::string text;
  for (const std::string_view name : names) text += fmt::format("{}{}", text.empty() ? "" : separator, name);
  return text;
}

std::string device_name(Device device) {
  if (device.kind == DeviceKind::cpu) return "cpu";
  return fmt::format("{}:{}", kind_name(device.kind), device.index);
}

std::vector<Device> devices_at_hand(std::vector<std::string>* missing) {
  std::vector<Device> all;
  for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::cuda, DeviceKind::hip}) {
    // The ordinals of a backend are dense; invalid_argument says that there are no more. Where there are none at all,
    // every number has the same error, also one that no device has.
    DeviceFacts facts;
    const bool some = device_facts({kind, INT32_MAX}, &facts).code() == StatusCode::invalid_argument;
    for (Device device{kind, 0};; ++device.index) {
      const Status status = device_facts(device, &facts);
      if (status.code() == StatusCode::invalid_argument) break;
      if (status.ok()) {
        all.push_back(device);
      } else if (missing != nullptr) {
        missing->push_back(status.message());
      }
      if (!some) break;
    }
  }
  return all;
}

}  // namespace silt::cli
