// Where packed weights lie: a few large blocks on huge pages, in the order of loading, which is nearly the order in
// which a token reads them.
#pragma once

#include <algorithm>
#include <vector>

#include "core/buffer.hpp"

namespace silt {

class WeightMemory {
 public:
  /// Zeroed, on a cache line. Throws NoMemory where there is none.
  std::byte* take(size_t bytes) {
    const size_t lines = (bytes + kLine - 1) / kLine * kLine;
    if (blocks_.empty() || blocks_.back().bytes() - used_ < lines) {
      blocks_.emplace_back(std::max(lines, kBlock));
      used_ = 0;
    }
    std::byte* place = blocks_.back().data() + used_;
    used_ += lines;
    return place;
  }

 private:
  static constexpr size_t kLine = 64;
  static constexpr size_t kBlock = size_t{64} << 20;  ///< pages that stay unused stay unmapped
  std::vector<Buffer> blocks_;
  size_t used_ = 0;
};

}  // namespace silt
