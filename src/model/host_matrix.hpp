// Weights as plain rows in memory, between the checkpoint and the packed form that products read.
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "silt/dtype.hpp"

#include "core/buffer.hpp"

namespace silt {

/// Row-major, contiguous; bf16 or f32.
struct HostMatrix {
  DType dtype = DType::bf16;
  int64_t rows = 0;
  int64_t cols = 0;
  Buffer data;

  HostMatrix() = default;
  HostMatrix(DType type, int64_t row_count, int64_t col_count)
      : dtype(type),
        rows(row_count),
        cols(col_count),
        data(static_cast<size_t>(row_count) * static_cast<size_t>(col_count) * size_of(type)) {}

  [[nodiscard]] size_t row_bytes() const { return static_cast<size_t>(cols) * size_of(dtype); }
  [[nodiscard]] std::byte* row(int64_t index) { return data.data() + static_cast<size_t>(index) * row_bytes(); }
  [[nodiscard]] const std::byte* row(int64_t index) const {
    return data.data() + static_cast<size_t>(index) * row_bytes();
  }
  [[nodiscard]] float at(int64_t r, int64_t c) const {
    const auto index = static_cast<size_t>(r * cols + c);
    return dtype == DType::bf16 ? to_float(data.as<bf16>()[index]) : data.as<float>()[index];
  }
};

/// Rows [first, first + count).
inline HostMatrix row_slice(const HostMatrix& whole, int64_t first, int64_t count) {
  HostMatrix part(whole.dtype, count, whole.cols);
  if (count > 0) std::memcpy(part.data.data(), whole.row(first), static_cast<size_t>(count) * whole.row_bytes());
  return part;
}

/// Columns [first, first + count).
inline HostMatrix column_slice(const HostMatrix& whole, int64_t first, int64_t count) {
  HostMatrix part(whole.dtype, whole.rows, count);
  const size_t offset = static_cast<size_t>(first) * size_of(whole.dtype);
  for (int64_t r = 0; r < whole.rows; ++r) std::memcpy(part.row(r), whole.row(r) + offset, part.row_bytes());
  return part;
}

/// The matrices one under the other; all with the same columns and dtype.
inline HostMatrix stack(std::span<const HostMatrix* const> parts) {
  int64_t rows = 0;
  for (const HostMatrix* part : parts) rows += part->rows;
  HostMatrix whole(parts[0]->dtype, rows, parts[0]->cols);
  int64_t next = 0;
  for (const HostMatrix* part : parts) {
    if (part->rows > 0)
      std::memcpy(whole.row(next), part->data.data(), static_cast<size_t>(part->rows) * whole.row_bytes());
    next += part->rows;
  }
  return whole;
}

inline HostMatrix transposed(const HostMatrix& whole) {
  HostMatrix turned(whole.dtype, whole.cols, whole.rows);
  const size_t width = size_of(whole.dtype);
  for (int64_t r = 0; r < whole.rows; ++r) {
    for (int64_t c = 0; c < whole.cols; ++c) {
      std::memcpy(turned.row(c) + static_cast<size_t>(r) * width, whole.row(r) + static_cast<size_t>(c) * width, width);
    }
  }
  return turned;
}

}  // namespace silt
