// The arguments of one call: Python objects read in place as views, and how it runs.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "silt/choose.hpp"
#include "silt/status.hpp"
#include "silt/tensor.hpp"

#include "exchange.hpp"

namespace silt::python {

/// `stream`, `threads`, `pdl`, `kernel`, `prefer` and `debug` as they were given.
struct LaunchOptions {
  std::optional<uintptr_t> stream;  ///< absent: the current stream of the framework whose GPU tensor comes first
  int32_t threads;
  std::optional<std::string_view> pdl;
  std::optional<std::string_view> kernel;  ///< this kernel or an error
  std::optional<std::string_view> prefer;  ///< this kernel where it accepts
  bool debug;
};

/// Throws the exception of a status that is not ok: ValueError with its text where arguments are at fault.
void raise_unless_ok(const Status& status);

class Arguments {
 public:
  explicit Arguments(std::string_view op) : op_(op) {}
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;
  ~Arguments();

  /// None is an absent tensor. Throws ValueError where the object has no view, or a read-only one that is written.
  ConstTensorView read(const char* name, nanobind::handle object) { return view(name, object, false); }
  TensorView written(const char* name, nanobind::handle object) { return view(name, object, true); }
  /// For a field that is written in some calls, in one where it is not.
  TensorView only_read(const char* name, nanobind::handle object) { return view(name, object, false); }

  /// Calls the operator and throws what it says. The interpreter runs on meanwhile where that takes long: on the
  /// CPU, and where memory is looked at.
  template <class Args>
  void run(Status (*op)(const Args&, const Launch&), const Args& args, const LaunchOptions& options) {
    const Launch launch = make_launch(options);
    Status status;
    if (on_gpu_ && !launch.debug) {
      status = op(args, launch);
    } else {
      const nanobind::gil_scoped_release released;
      status = op(args, launch);
    }
    raise_unless_ok(status);
  }

 private:
  TensorView view(const char* name, nanobind::handle object, bool written);
  /// A view of `object` in *tensor, whose shape and strides may lie in *numbers. Returns whether it may be written.
  bool fill(const char* name, nanobind::handle object, const Source& source, DlTensor* tensor);
  bool fill_from_interface(const char* name, nanobind::handle object, DlTensor* tensor);
  bool fill_from_capsule(nanobind::handle object, DlTensor* tensor);
  Launch make_launch(const LaunchOptions& options);
  [[noreturn]] void refuse(const char* name, const std::string& text) const;

  std::string_view op_;
  bool on_gpu_ = false;
  nanobind::handle gpu_object_;  ///< the first argument on a GPU, which says what stream is current
  Source gpu_source_;
  nanobind::dlpack::device gpu_device_;
  std::array<PyObject*, 24> kept_{};  ///< capsules: they go when the call has returned
  size_t kept_count_ = 0;
  std::array<int64_t, 2 * kMaxRank> numbers_{};
};

}  // namespace silt::python
