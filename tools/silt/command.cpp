#include "command.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdio>

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

template <class T>
bool parse(std::string_view text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
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

std::string joined(const std::vector<std::string_view>& names) {
  std::string text;
  for (const std::string_view name : names) text += fmt::format("{}{}", text.empty() ? "" : ", ", name);
  return text;
}

CLI::Validator whole_number(int64_t least, int64_t most) {
  const std::string needs = most == INT64_MAX ? fmt::format("a whole number, at least {}", least)
                                              : fmt::format("a whole number in {}..{}", least, most);
  return {[=](std::string& text) {
            int64_t value = 0;
            const bool good = parse(text, &value) && value >= least && value <= most;
            return good ? std::string() : fmt::format("has \"{}\", needs {}", text, needs);
          },
          ""};
}

CLI::Validator real_number(double least, double most) {
  const std::string needs =
      std::isinf(most) ? fmt::format("a number, at least {}", least) : fmt::format("a number in {}..{}", least, most);
  return {[=](std::string& text) {
            double value = 0;
            const bool good = parse(text, &value) && std::isfinite(value) && value >= least && value <= most;
            return good ? std::string() : fmt::format("has \"{}\", needs {}", text, needs);
          },
          ""};
}

std::string device_name(Device device) {
  if (device.kind == DeviceKind::cpu) return "cpu";
  return fmt::format("{}:{}", kind_name(device.kind), device.index);
}

std::vector<Device> devices_at_hand(std::vector<std::string>* missing) {
  std::vector<Device> all;
  for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::cuda, DeviceKind::hip}) {
    // The ordinals of a backend are dense; invalid_argument says that there are no more.
    for (Device device{kind, 0};; ++device.index) {
      DeviceFacts facts;
      const Status status = device_facts(device, &facts);
      if (status.ok()) {
        all.push_back(device);
        continue;
      }
      if (missing != nullptr && device.index == 0) missing->push_back(status.message());
      break;
    }
  }
  return all;
}

std::string example(std::string_view lines) { return fmt::format("Example:\n  {}", lines); }

}  // namespace silt::cli
