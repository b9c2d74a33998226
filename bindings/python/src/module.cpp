// silt._silt: the operators, and what the library says of itself.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <optional>
#include <string>

#include "silt/choose.hpp"
#include "silt/device.hpp"
#include "silt/silt.h"

#include "arguments.hpp"
#include "operators.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace silt::python {
namespace {

/// A text of the C ABI, whose device names ("cpu", "cuda:0", "h200") are those of this module.
template <class Call>
std::string text_of(const Call& call) {
  size_t length = 0;
  const auto demand = [](silt_status status) {
    raise_unless_ok(status == SILT_OK ? Status() : Status(static_cast<StatusCode>(status), silt_last_error()));
  };
  demand(call(nullptr, size_t{0}, &length));
  std::string text(length + 1, '\0');
  demand(call(text.data(), text.size(), &length));
  text.resize(length);
  return text;
}

using Name = std::optional<std::string>;

const char* name_or_null(const Name& name) { return name ? name->c_str() : nullptr; }

std::string explain(const char* problem_line, const Name& device, const Name& kernel) {
  return text_of([&](char* text, size_t capacity, size_t* length) {
    return silt_explain(problem_line, name_or_null(device), name_or_null(kernel), text, capacity, length);
  });
}

std::string device_text(const Name& device) {
  return text_of([&](char* text, size_t capacity, size_t* length) {
    return silt_device_text(name_or_null(device), text, capacity, length);
  });
}

std::string_view name_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cuda:
      return "cuda";
    case DeviceKind::hip:
      return "hip";
    default:
      return "cpu";
  }
}

nb::list kernel_list(const Name& op) {
  nb::list all;
  for (const KernelInfo& info : op ? silt::kernels(*op) : silt::kernels()) {
    nb::dict kernel;
    kernel["op"] = info.op;
    kernel["name"] = info.name;
    kernel["device"] = name_of(info.device);
    kernel["built"] = info.built;
    kernel["why_not_built"] = info.why_not_built;
    kernel["runs"] = info.runs;
    kernel["fallbacks"] = info.fallbacks;
    all.append(kernel);
  }
  return all;
}

nb::list operator_names() {
  nb::list names;
  for (const std::string_view name : silt::operators()) names.append(name);
  return names;
}

}  // namespace
}  // namespace silt::python

NB_MODULE(_silt, module) {
  using namespace silt::python;
  module.attr("__version__") = silt::version();
  add_operators(module);
  module.def("explain", explain, "problem_line"_a, "device"_a = nb::none(), "kernel"_a = nb::none(),
             "Which kernel a problem takes on a device, and why the others do not.");
  module.def("device_text", device_text, "device"_a = nb::none(), "One line of facts of a device.");
  module.def("describe_devices", silt::describe_devices, "Every device at hand and what was built for it.");
  module.def("kernels", kernel_list, "op"_a = nb::none(), "Every kernel, or those of an operator, with its counters.");
  module.def("operators", operator_names, "The names of all operators.");
  module.def("reset_counters", silt::reset_counters, "Sets the counters of all kernels to zero.");
}
