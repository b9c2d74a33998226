#include "c_api/convert.hpp"

#include <string>

#include "core/status.hpp"

namespace silt {
namespace {

std::string& last_error() {
  thread_local std::string text;
  return text;
}

}  // namespace

TensorView Converter::view(std::string_view name, const silt_tensor& tensor) {
  TensorView made;
  if (tensor.rank == 0) return made;
  made.data = tensor.data;
  made.dtype = static_cast<DType>(value(name, tensor.dtype, SILT_BF16, SILT_I32, ".dtype"));
  made.rank = value(name, tensor.rank, 0, kMaxRank, ".rank");
  for (size_t axis = 0; axis < kMaxRank; ++axis) {
    made.shape[axis] = tensor.shape[axis];
    made.stride[axis] = tensor.stride[axis];
  }
  made.device.kind = static_cast<DeviceKind>(value(name, tensor.device_kind, SILT_CPU, SILT_HIP, ".device_kind"));
  made.device.index = tensor.device_index;
  return made;
}

int32_t Converter::value(std::string_view name, int32_t value, int32_t least, int32_t most, std::string_view part) {
  if (value >= least && value <= most) return value;
  if (status_.ok()) status_ = invalid("{}: {}{}: has {}, needs {}..{}", op_, name, part, value, least, most);
  return least;
}

Status to_launch(std::string_view op, const silt_launch* given, Launch* launch) {
  *launch = {};
  if (given == nullptr) return {};
  silt_launch c;
  SILT_TRY(read_struct(op, given, offsetof(silt_launch, reserved), &c));
  Converter in(op);
  launch->stream = c.stream;
  launch->threads = c.threads;
  launch->pdl = static_cast<Pdl>(in.value("launch.pdl", c.pdl, SILT_PDL_OFF, SILT_PDL_LATE));
  launch->policy.kind = static_cast<Policy::Kind>(in.value("launch.policy", c.policy, SILT_AUTOMATIC, SILT_REQUIRE));
  launch->debug = in.value("launch.debug", c.debug, 0, 1) != 0;
  if (c.kernel != nullptr) {
    launch->policy.kernel = c.kernel;
  } else if (c.policy != SILT_AUTOMATIC) {
    return invalid("{}: launch.kernel: is null, needs a name with this policy", op);
  }
  return in.status();
}

silt_status keep(const Status& status) noexcept {
  if (status.ok()) return SILT_OK;
  try {
    last_error() = status.message();
  } catch (const std::bad_alloc&) {
    last_error().clear();
  }
  return static_cast<silt_status>(status.code());
}

}  // namespace silt

const char* silt_last_error(void) { return silt::last_error().c_str(); }
