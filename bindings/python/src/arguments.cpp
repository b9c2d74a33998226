#include "arguments.hpp"

#include <fmt/format.h>

#include <new>
#include <string>

namespace nb = nanobind;

namespace silt::python {
namespace {

// DLDeviceType. Pinned host memory is the CPU's, managed memory the GPU's.
enum DlDevice : int32_t { kDlCpu = 1, kDlCuda = 2, kDlCudaHost = 3, kDlRocm = 10, kDlRocmHost = 11, kDlManaged = 13 };

DType dtype_from(nb::dlpack::dtype type, bool* known) {
  using Code = nb::dlpack::dtype_code;
  *known = type.lanes == 1;
  if (type.code == static_cast<uint8_t>(Code::Bfloat) && type.bits == 16) return DType::bf16;
  if (type.code == static_cast<uint8_t>(Code::Float) && type.bits == 32) return DType::f32;
  if (type.code == static_cast<uint8_t>(Code::Int) && type.bits == 32) return DType::i32;
  *known = false;
  return DType::f32;
}

/// The name NumPy and the frameworks have for a type.
std::string text_of(nb::dlpack::dtype type) {
  constexpr std::string_view names[] = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
  if (type.code < std::size(names)) return fmt::format("{}{}", names[type.code], type.bits);
  return fmt::format("DLPack type {} of {} bits", type.code, type.bits);
}

bool device_from(nb::dlpack::device device, Device* made) {
  switch (device.device_type) {
    case kDlCpu:
    case kDlCudaHost:
    case kDlRocmHost:
      *made = {};
      return true;
    case kDlCuda:
    case kDlManaged:
      *made = {DeviceKind::cuda, device.device_id};
      return true;
    case kDlRocm:
      *made = {DeviceKind::hip, device.device_id};
      return true;
    default:
      return false;
  }
}

int64_t integer(nb::handle object) {
  const long long value = PyLong_AsLongLong(object.ptr());
  if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return value;
}

Pdl pdl_from(std::string_view op, std::string_view text) {
  if (text == "off") return Pdl::off;
  if (text == "wait") return Pdl::wait;
  if (text == "late") return Pdl::late;
  throw nb::value_error(fmt::format("{}: pdl: has \"{}\", needs off, wait or late", op, text).c_str());
}

}  // namespace

void raise_unless_ok(const Status& status) {
  if (status.ok()) return;
  const char* text = status.message().c_str();
  switch (status.code()) {
    case StatusCode::invalid_argument:
    case StatusCode::unsupported:
      throw nb::value_error(text);
    case StatusCode::out_of_memory:
      PyErr_SetString(PyExc_MemoryError, text);
      break;
    case StatusCode::io_error:
      PyErr_SetString(PyExc_OSError, text);
      break;
    default:
      PyErr_SetString(PyExc_RuntimeError, text);
  }
  throw nb::python_error();
}

Arguments::~Arguments() {
  for (size_t i = 0; i < kept_count_; ++i) Py_DECREF(kept_[i]);
}

void Arguments::refuse(const char* name, const std::string& text) const {
  throw nb::value_error(fmt::format("{}: {}: {}", op_, name, text).c_str());
}

TensorView Arguments::view(const char* name, nb::handle object, bool written) {
  TensorView made;
  if (object.is_none()) return made;
  const Source source = source_of(Py_TYPE(object.ptr()));
  DlTensor tensor;
  const bool writable = fill(name, object, source, &tensor);
  if (written && !writable) refuse(name, "is read-only, needs memory that may be written");
  bool known = false;
  made.dtype = dtype_from(tensor.dtype, &known);
  if (!known) refuse(name, fmt::format("dtype: has {}, needs bfloat16, float32 or int32", text_of(tensor.dtype)));
  if (tensor.ndim < 1 || tensor.ndim > kMaxRank) {
    refuse(name, fmt::format("rank: has {}, needs 1..{}", tensor.ndim, kMaxRank));
  }
  if (!device_from(tensor.device, &made.device)) {
    refuse(name, fmt::format("device: has DLPack device {}, needs the CPU, CUDA or ROCm", tensor.device.device_type));
  }
  made.data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  made.rank = tensor.ndim;
  int64_t step = 1;
  for (int32_t axis = made.rank; axis-- > 0;) {
    const auto i = static_cast<size_t>(axis);
    made.shape[i] = tensor.shape[axis];
    made.stride[i] = tensor.strides == nullptr ? step : tensor.strides[axis];
    step *= made.shape[i];
  }
  if (made.device.kind != DeviceKind::cpu && !on_gpu_) {
    on_gpu_ = true;
    gpu_object_ = object;
    gpu_source_ = source;
    gpu_device_ = tensor.device;
  }
  return made;
}

bool Arguments::fill(const char* name, nb::handle object, const Source& source, DlTensor* tensor) {
  switch (source.kind) {
    case Source::Kind::exchange:
      if (source.exchange->tensor_from_object(object.ptr(), tensor) != 0) throw nb::python_error();
      return true;
    case Source::Kind::array_interface:
      return fill_from_interface(name, object, tensor);
    case Source::Kind::dlpack:
      return fill_from_capsule(object, tensor);
    case Source::Kind::none:
      break;
  }
  refuse(name, fmt::format("has a {}, needs a tensor with __dlpack__", nb::type_name(object.type()).c_str()));
}

bool Arguments::fill_from_interface(const char* name, nb::handle object, DlTensor* tensor) {
  using Code = nb::dlpack::dtype_code;
  const nb::object interface = object.attr("__array_interface__");
  const nb::object data = interface["data"];
  const nb::tuple shape = nb::borrow<nb::tuple>(interface["shape"]);
  const nb::object strides = interface["strides"];
  const nb::str type(interface["typestr"]);
  const std::string_view code = type.c_str();
  const size_t rank = shape.size();
  int64_t size = 4;
  if (code == "<f4") {
    tensor->dtype = {static_cast<uint8_t>(Code::Float), 32, 1};
  } else if (code == "<i4") {
    tensor->dtype = {static_cast<uint8_t>(Code::Int), 32, 1};
  } else {
    // What ml_dtypes adds to NumPy is void of two bytes to this protocol; the dtype has the name.
    const nb::object of = object.attr("dtype");
    const nb::str dtype{nb::handle(of)};  // its name, which is no str itself
    if (std::string_view(dtype.c_str()) != "bfloat16") {
      refuse(name, fmt::format("dtype: has {}, needs bfloat16, float32 or int32", dtype.c_str()));
    }
    tensor->dtype = {static_cast<uint8_t>(Code::Bfloat), 16, 1};
    size = 2;
  }
  if (rank > kMaxRank) refuse(name, fmt::format("rank: has {}, needs 1..{}", rank, kMaxRank));
  for (size_t axis = 0; axis < rank; ++axis) {
    numbers_[axis] = integer(shape[axis]);
    if (strides.is_none()) continue;
    const int64_t bytes = integer(strides[axis]);
    if (bytes % size != 0) {
      refuse(name, fmt::format("strides: axis {} has {} bytes, needs a multiple of {}", axis, bytes, size));
    }
    numbers_[kMaxRank + axis] = bytes / size;
  }
  tensor->data = PyLong_AsVoidPtr(nb::object(data[0]).ptr());
  if (tensor->data == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
  tensor->device = {kDlCpu, 0};
  tensor->ndim = static_cast<int32_t>(rank);
  tensor->shape = numbers_.data();
  tensor->strides = strides.is_none() ? nullptr : numbers_.data() + kMaxRank;
  return !nb::cast<bool>(data[1]);
}

bool Arguments::fill_from_capsule(nb::handle object, DlTensor* tensor) {
  nb::dict options;
  if (nb::hasattr(object, "__dlpack_device__")) {
    const int32_t type = nb::cast<int32_t>(nb::object(object.attr("__dlpack_device__")())[0]);
    // -1: the kernel is put on the stream that is current anyway. A framework without one is asked to have its data
    // ready for the default stream, where the kernel then runs.
    const bool streams = has_stream(object, {Source::Kind::dlpack, nullptr});
    if (type == kDlCuda || type == kDlManaged) options["stream"] = nb::int_(streams ? -1 : 1);
    if (type == kDlRocm) options["stream"] = nb::int_(streams ? -1 : 0);
  }
  const nb::object make = object.attr("__dlpack__");
  nb::object capsule;
  try {
    nb::dict versioned = nb::borrow<nb::dict>(options.attr("copy")());
    versioned["max_version"] = nb::make_tuple(1, 1);
    capsule = make(**versioned);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
    capsule = make(**options);  // a producer from before version 1
  }
  // The capsule is not renamed, so that it frees the tensor itself when it goes.
  bool writable = true;
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned") != 0) {
    const auto* managed = static_cast<DlManagedVersioned*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    writable = (managed->flags & kDlReadOnly) == 0;
    *tensor = managed->tensor;
  } else {
    const auto* managed = static_cast<DlManaged*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
    if (managed == nullptr) throw nb::python_error();
    *tensor = managed->tensor;
  }
  if (kept_count_ == kept_.size()) throw std::bad_alloc();
  kept_[kept_count_++] = capsule.release().ptr();
  return writable;
}

Launch Arguments::make_launch(const LaunchOptions& options) {
  Launch launch;
  launch.threads = options.threads;
  launch.debug = options.debug;
  if (options.stream) {
    launch.stream = reinterpret_cast<void*>(*options.stream);  // NOLINT(performance-no-int-to-ptr): Python's form of it
  } else if (on_gpu_) {
    launch.stream = current_stream(gpu_object_, gpu_source_, gpu_device_);
  }
  if (options.pdl) launch.pdl = pdl_from(op_, *options.pdl);
  if (options.kernel && options.prefer) {
    refuse("kernel", "is given together with prefer, needs one of them");
  }
  if (options.kernel) launch.policy = Policy::require(*options.kernel);
  if (options.prefer) launch.policy = Policy::prefer(*options.prefer);
  return launch;
}

}  // namespace silt::python
