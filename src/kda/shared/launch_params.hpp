// What the launches of every KDA kernel on a GPU say alike.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace silt::kda {

/// An index is an int32, so slots behind its range are out of reach anyway.
constexpr int32_t slots_in_reach(int64_t slots) {
  return static_cast<int32_t>(std::min<int64_t>(slots, std::numeric_limits<int32_t>::max()));
}

}  // namespace silt::kda
