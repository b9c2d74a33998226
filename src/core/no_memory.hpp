// Memory that is not to be had: the exception that says how much was asked for, and the way back to a status.
#pragma once

#include <new>

#include "core/status.hpp"

namespace silt {

class NoMemory : public std::bad_alloc {
 public:
  explicit NoMemory(size_t bytes) : bytes_(bytes) {}
  [[nodiscard]] size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
};

/// What `body` returns, or "<what()>: has no memory ..." where it or a container that it grows got none.
template <class What, class Body>
Status with_memory(What&& what, Body&& body) {
  try {
    try {
      return body();
    } catch (const NoMemory& error) {
      return failed(StatusCode::out_of_memory, "{}: has no memory for {} bytes", what(), error.bytes());
    } catch (const std::bad_alloc&) {
      return failed(StatusCode::out_of_memory, "{}: has no memory left", what());
    }
  } catch (const std::bad_alloc&) {
    return {StatusCode::out_of_memory, "out of memory"};  // as short as a std::string keeps in itself
  }
}

}  // namespace silt
