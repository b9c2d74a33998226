#include "core/scratch.hpp"

#include <new>

#include "core/buffer.hpp"
#include "core/status.hpp"

namespace silt {

Status thread_scratch(size_t bytes, std::byte** data) {
  thread_local Buffer block;
  if (block.bytes() < bytes) {
    try {
      block = Buffer();
      block = Buffer(bytes);
    } catch (const std::bad_alloc&) {
      return failed(StatusCode::out_of_memory, "scratch: {} bytes: none left", bytes);
    }
  }
  *data = block.data();
  return {};
}

}  // namespace silt
