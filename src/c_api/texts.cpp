// The parts of silt.h that answer in text.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>

#include "silt/choose.hpp"
#include "silt/device.hpp"
#include "silt/silt.h"

#include "c_api/convert.hpp"
#include "core/status.hpp"

namespace silt {
namespace {

void copy_text(const std::string& from, char* text, size_t capacity, size_t* length) {
  if (length != nullptr) *length = from.size();
  if (text == nullptr || capacity == 0) return;
  const size_t count = std::min(from.size(), capacity - 1);
  std::memcpy(text, from.data(), count);
  text[count] = '\0';
}

/// "cpu", "cuda:0", "hip:0", or the name of a known device.
Status facts_named(const char* name, DeviceFacts* facts) {
  const std::string_view text = name == nullptr ? "cpu" : name;
  if (text == "cpu") return device_facts({}, facts);
  const size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  if (colon == std::string_view::npos || (kind != "cuda" && kind != "hip")) return canned_facts(text, facts);
  const std::string_view digits = text.substr(colon + 1);
  int32_t index = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    return invalid("device: has \"{}\", needs a number behind {}:", text, kind);
  }
  return device_facts({kind == "cuda" ? DeviceKind::cuda : DeviceKind::hip, index}, facts);
}

}  // namespace
}  // namespace silt

const char* silt_version(void) {
  static const std::string text(silt::version());
  return text.c_str();
}

silt_status silt_explain(const char* problem_line, const char* device, const char* kernel, char* text, size_t capacity,
                         size_t* length) {
  return silt::guarded([&]() -> silt::Status {
    silt::copy_text("", text, capacity, length);
    if (problem_line == nullptr) return silt::invalid("explain: problem_line: is null, needs a problem line");
    silt::DeviceFacts facts;
    SILT_TRY(silt::facts_named(device, &facts));
    silt::Explanation explanation;
    const silt::Policy policy = kernel == nullptr ? silt::Policy() : silt::Policy::require(kernel);
    const silt::Status status = silt::explain(problem_line, facts, policy, &explanation);
    silt::copy_text(explanation.table, text, capacity, length);
    return status;
  });
}

silt_status silt_device_text(const char* device, char* text, size_t capacity, size_t* length) {
  return silt::guarded([&]() -> silt::Status {
    silt::copy_text("", text, capacity, length);
    silt::DeviceFacts facts;
    SILT_TRY(silt::facts_named(device, &facts));
    silt::copy_text(silt::to_string(facts), text, capacity, length);
    return {};
  });
}

silt_status silt_kernel_runs(const char* op, const char* kernel, uint64_t* runs, uint64_t* fallbacks) {
  return silt::guarded([&]() -> silt::Status {
    const std::string_view op_name = op == nullptr ? "" : op;
    const std::string_view kernel_name = kernel == nullptr ? "" : kernel;
    for (const silt::KernelInfo& info : silt::kernels(op_name)) {
      if (info.name != kernel_name) continue;
      if (runs != nullptr) *runs = info.runs;
      if (fallbacks != nullptr) *fallbacks = info.fallbacks;
      return {};
    }
    return silt::invalid("kernel_runs: has operator \"{}\" and kernel \"{}\", needs a kernel that the operator lists",
                         op_name, kernel_name);
  });
}
