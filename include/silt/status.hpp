// What a call reports back. Nothing has been written when a status is not ok.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace silt {

enum class StatusCode : int32_t {
  ok = 0,
  invalid_argument = 1,  ///< the arguments break the operator's contract
  unsupported = 2,       ///< a kernel required by name does not take this problem, or no kernel does
  device_error = 3,      ///< a driver or launch error
  io_error = 4,          ///< a file that cannot be read or written
  out_of_memory = 5,
  exhausted = 6,  ///< no free slot, or the context is full
};

/// Code and text; the text names operator, argument, what was found and what is needed.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  [[nodiscard]] bool ok() const { return code_ == StatusCode::ok; }
  [[nodiscard]] StatusCode code() const { return code_; }
  [[nodiscard]] const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::ok;
  std::string message_;
};

}  // namespace silt
