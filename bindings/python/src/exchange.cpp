#include "exchange.hpp"

#include <array>
#include <string>

namespace nb = nanobind;

namespace silt::python {
namespace {

constexpr uint32_t kDlMajor = 1;

const DlExchange* exchange_of(nb::handle type) {
  nb::object capsule = nb::getattr(type, "__dlpack_c_exchange_api__", nb::none());
  if (PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api") == 0) return nullptr;
  const auto* api = static_cast<const DlExchange*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  while (api != nullptr && api->version.major > kDlMajor) api = api->older;
  // Without this one function a capsule per argument is the way, as for everybody else.
  return api != nullptr && api->version.major == kDlMajor && api->tensor_from_object != nullptr ? api : nullptr;
}

Source look_up(PyTypeObject* type) {
  const nb::handle handle(reinterpret_cast<PyObject*>(type));
  if (const DlExchange* exchange = exchange_of(handle)) return {Source::Kind::exchange, exchange};
  // NumPy before DLPack: its DLPack refuses bfloat16, and read-only arrays where it is asked for version 0.
  if (nb::hasattr(handle, "__array_interface__")) return {Source::Kind::array_interface, nullptr};
  if (nb::hasattr(handle, "__dlpack__")) return {Source::Kind::dlpack, nullptr};
  return {};
}

bool is_of(nb::handle object, const char* framework) {
  const nb::object module = nb::getattr(object.type(), "__module__", nb::str(""));
  const std::string name = nb::str(module).c_str();
  return name == framework || name.starts_with(std::string(framework) + ".");
}

/// A tensor of a PyTorch that has no table of functions yet.
bool is_torch(nb::handle object) { return nb::hasattr(object, "is_cuda"); }

void* pointer(nb::handle integer) {
  void* made = PyLong_AsVoidPtr(integer.ptr());
  if (made == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
  return made;
}

}  // namespace

Source source_of(PyTypeObject* type) {
  struct Entry {
    PyTypeObject* type = nullptr;
    Source source;
  };
  // Under the interpreter lock. An entry keeps its type alive, so that no other type gets its address.
  static std::array<Entry, 16> known;
  for (Entry& entry : known) {
    if (entry.type == type) return entry.source;
    if (entry.type == nullptr) {
      const Source source = look_up(type);
      Py_INCREF(reinterpret_cast<PyObject*>(type));
      entry = {type, source};
      return source;
    }
  }
  return look_up(type);
}

bool has_stream(nb::handle object, const Source& source) {
  return (source.exchange != nullptr && source.exchange->current_stream != nullptr) || is_torch(object) ||
         is_of(object, "cupy");
}

void* current_stream(nb::handle object, const Source& source, nb::dlpack::device device) {
  if (source.exchange != nullptr && source.exchange->current_stream != nullptr) {
    void* stream = nullptr;
    if (source.exchange->current_stream(device.device_type, device.device_id, &stream) != 0) throw nb::python_error();
    return stream;
  }
  if (is_torch(object)) {
    return pointer(
        nb::module_::import_("torch").attr("cuda").attr("current_stream")(device.device_id).attr("cuda_stream"));
  }
  if (is_of(object, "cupy")) {
    return pointer(nb::module_::import_("cupy").attr("cuda").attr("get_current_stream")().attr("ptr"));
  }
  return nullptr;
}

}  // namespace silt::python
