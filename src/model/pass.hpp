// One trip of some tokens through the layers.
#pragma once

#include <cstdint>
#include <vector>

namespace silt {

/// Consecutive tokens of one sequence; rows [first, first + rows) of the activations.
struct Segment {
  int32_t slot = 0;
  int64_t first = 0;
  int64_t rows = 0;
  int64_t position = 0;  ///< tokens that the sequence had before
};

struct Pass {
  std::vector<int32_t> tokens;  ///< one per row
  std::vector<Segment> segments;
  // The same as the operators take it. Pool slots are numbered as the session's (null_slot is -1: no row is padding).
  std::vector<int32_t> offsets;
  std::vector<int32_t> slots;
  std::vector<int32_t> continued;  ///< 0: the sequence is new and what its slot holds is not read

  [[nodiscard]] int64_t rows() const { return static_cast<int64_t>(tokens.size()); }
  /// One more token for every sequence, none of them new: what kda_decode is for.
  [[nodiscard]] bool decode() const {
    for (const Segment& segment : segments) {
      if (segment.rows != 1 || segment.position == 0) return false;
    }
    return true;
  }
  void clear() {
    tokens.clear();
    segments.clear();
    slots.clear();
    continued.clear();
    offsets.assign(1, 0);
  }
  void add(int32_t slot, int64_t position, const int32_t* first, int64_t count) {
    segments.push_back({slot, rows(), count, position});
    tokens.insert(tokens.end(), first, first + count);
    slots.push_back(slot);
    continued.push_back(position > 0 ? 1 : 0);
    offsets.push_back(static_cast<int32_t>(rows()));
  }
};

}  // namespace silt
