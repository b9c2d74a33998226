// From the structures of silt.h to those of the C++ headers, and from a status to a code.
#pragma once

#include <exception>
#include <new>
#include <string_view>

#include "silt/choose.hpp"
#include "silt/silt.h"
#include "silt/tensor.hpp"

#include "c_api/read_struct.hpp"

namespace silt {

/// Integers of C become values that the C++ types can have; the first one that cannot is kept as the status.
class Converter {
 public:
  explicit Converter(std::string_view op) : op_(op) {}

  TensorView view(std::string_view name, const silt_tensor& tensor);
  /// `part` is the member of a structure that `name` names, with its dot.
  int32_t value(std::string_view name, int32_t value, int32_t least, int32_t most, std::string_view part = {});
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  std::string_view op_;
  Status status_;
};

/// A null launch is the default one.
Status to_launch(std::string_view op, const silt_launch* given, Launch* launch);

/// Keeps the text for silt_last_error of this thread.
silt_status keep(const Status& status) noexcept;

/// No exception leaves the library through C.
template <class Body>
silt_status guarded(Body&& body) noexcept {
  try {
    return keep(body());
  } catch (const std::bad_alloc&) {
    return keep({StatusCode::out_of_memory, "out of memory"});
  } catch (const std::exception& error) {
    return keep({StatusCode::device_error, error.what()});
  }
}

/// One operator: both structures, the arguments by `fill`, the call.
template <class Args, class CArgs, class Fill>
silt_status call(std::string_view op, const CArgs* given, size_t known, const silt_launch* given_launch, Fill&& fill,
                 Status (*function)(const Args&, const Launch&)) {
  return guarded([&]() -> Status {
    CArgs c;
    SILT_TRY(read_struct(op, given, known, &c));
    Launch launch;
    SILT_TRY(to_launch(op, given_launch, &launch));
    Args args;
    Converter in(op);
    fill(c, in, args);
    SILT_TRY(in.status());
    return function(args, launch);
  });
}

}  // namespace silt
