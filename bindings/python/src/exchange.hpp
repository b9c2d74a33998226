// The C side of DLPack (versions 1.1 to 1.3), as far as arguments of a call need it: the structure of a tensor, the two
// kinds of capsules, and the table of functions by which a framework hands out tensors without making a capsule.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>

namespace silt::python {

using DlTensor = nanobind::dlpack::dltensor;

/// A capsule named "dltensor".
struct DlManaged {
  DlTensor tensor;
  void* context;
  void (*deleter)(DlManaged*);
};

struct DlVersion {
  uint32_t major;
  uint32_t minor;
};

/// A capsule named "dltensor_versioned".
struct DlManagedVersioned {
  DlVersion version;
  void* context;
  void (*deleter)(DlManagedVersioned*);
  uint64_t flags;
  DlTensor tensor;
};
constexpr uint64_t kDlReadOnly = 1;

/// What `type(tensor).__dlpack_c_exchange_api__` holds: one per framework, alive as long as the process.
struct DlExchange {
  DlVersion version;
  DlExchange* older;
  void* allocate;
  void* managed_from_object;
  void* managed_to_object;
  /// Fills a view of memory that the object keeps alive; no synchronisation. 0, or -1 with a Python error. May be null.
  int (*tensor_from_object)(void* object, DlTensor* tensor);
  int (*current_stream)(int32_t device_type, int32_t device, void** stream);
};

/// How the objects of one Python type are read.
struct Source {
  enum class Kind { exchange, array_interface, dlpack, none };
  Kind kind = Kind::none;
  const DlExchange* exchange = nullptr;
};

/// Of a type; remembered for the types that come first.
Source source_of(PyTypeObject* type);

/// Whether that framework has a current stream that is known here: PyTorch and CuPy have.
bool has_stream(nanobind::handle object, const Source& source);

/// The stream on which the framework of this object runs what it is told next, on that device. Null, the default
/// stream, where it has none (JAX).
void* current_stream(nanobind::handle object, const Source& source, nanobind::dlpack::device device);

}  // namespace silt::python
