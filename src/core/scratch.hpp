// Working memory that a thread keeps from call to call, so that a warm call allocates nothing.
#pragma once

#include <cstddef>

#include "silt/status.hpp"

namespace silt {

/// This thread's block of at least `bytes` bytes, on a page boundary, with whatever it held before. The next call of
/// the same thread may give it away, so an operator asks once; its workers get their parts of that block.
Status thread_scratch(size_t bytes, std::byte** data);

}  // namespace silt
