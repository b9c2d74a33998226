// Sequences of a variable-length batch in host memory.
#pragma once

#include "core/check_view.hpp"
#include "kda/shared/layout.hpp"

namespace silt::kda {

/// Rows [begin, end) of a sequence.
struct Rows {
  int64_t begin = 0;
  int64_t end = 0;

  [[nodiscard]] int64_t count() const { return end - begin; }
};

/// `offsets` may be absent: one row each.
inline Rows rows_of(const ConstTensorView& offsets, int64_t sequence) {
  if (!offsets.present()) return {sequence, sequence + 1};
  const auto* at = static_cast<const int32_t*>(offsets.data) + sequence;
  return {at[0], at[1]};
}

/// int32 [n + 1]; on the CPU also: not decreasing, within [0, rows]. Device memory is not read.
Status check_offsets(const NamedView& offsets, int64_t n, int64_t rows);

}  // namespace silt::kda
