// How a structure that starts with `size_t struct_size` is taken from a caller of another version.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "silt/device.hpp"

#include "core/status.hpp"

namespace silt {

/// Copies `given` into a zeroed `*own`. `known` is the number of bytes that this version gives a meaning to; a field
/// behind it (`reserved`) and everything in a larger structure must be zero.
template <class T>
Status read_struct(std::string_view op, const T* given, size_t known, T* own) {
  static_assert(std::is_trivially_copyable_v<T> && offsetof(T, struct_size) == 0);
  // A size that no version will have: the caller forgot to set it, and reading that far could leave its memory.
  constexpr size_t kMostBytes = 4096;
  if (given == nullptr) return invalid("{}: structure: is null, needs {} bytes", op, sizeof(T));
  const size_t size = given->struct_size;
  if (size < sizeof(size_t) || size > kMostBytes) {
    return invalid("{}: struct_size: has {}, needs {} (sizeof, as the defaults function sets it)", op, size, sizeof(T));
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  if (size > known && std::any_of(bytes + known, bytes + size, [](unsigned char byte) { return byte != 0; })) {
    return invalid("{}: struct_size: has {}, and bytes behind {} are not zero: silt {} does not know these fields", op,
                   size, known, version());
  }
  std::memset(static_cast<void*>(own), 0, sizeof(T));
  std::memcpy(static_cast<void*>(own), given, std::min(size, known));
  return {};
}

}  // namespace silt
