// A head's state as panels: 16 of its rows in one panel, transposed, so that products over the keys run along a
// broadcast key and 16 values at a time, with no horizontal sum. Element (v, k) is at v / 16 * 16 * 128 + k * 16 + v
// % 16.
#pragma once

#include "kda/shared/simd_state.inl.hpp"

SILT_SIMD_BEGIN;
namespace silt::SILT_SIMD_NAMESPACE::prefill {

using kda_steps::kDim;

constexpr int64_t kPanelRows = kLanes;
constexpr int64_t kPanel = kPanelRows * kDim;  ///< elements

/// Four values of each of four rows become four rows of four values.
SILT_INLINE void transpose_4(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
  const hn::FixedTag<float, 4> tag;
  const auto a = hn::LoadU(tag, from);
  const auto b = hn::LoadU(tag, from + from_stride);
  const auto c = hn::LoadU(tag, from + 2 * from_stride);
  const auto d = hn::LoadU(tag, from + 3 * from_stride);
  const auto ab_low = hn::InterleaveLower(tag, a, b);
  const auto ab_high = hn::InterleaveUpper(tag, a, b);
  const auto cd_low = hn::InterleaveLower(tag, c, d);
  const auto cd_high = hn::InterleaveUpper(tag, c, d);
  hn::StoreU(hn::ConcatLowerLower(tag, cd_low, ab_low), tag, to);
  hn::StoreU(hn::ConcatUpperUpper(tag, cd_low, ab_low), tag, to + to_stride);
  hn::StoreU(hn::ConcatLowerLower(tag, cd_high, ab_high), tag, to + 2 * to_stride);
  hn::StoreU(hn::ConcatUpperUpper(tag, cd_high, ab_high), tag, to + 3 * to_stride);
}

/// Sixteen rows to a panel, and back.
SILT_INLINE void rows_to_panel(const float* rows, float* panel) {
  for (int64_t k = 0; k < kDim; k += 4) {
    for (int64_t v = 0; v < kPanelRows; v += 4) transpose_4(rows + v * kDim + k, kDim, panel + k * kLanes + v, kLanes);
  }
}
SILT_INLINE void panel_to_rows(const float* panel, float* rows) {
  for (int64_t k = 0; k < kDim; k += 4) {
    for (int64_t v = 0; v < kPanelRows; v += 4) transpose_4(panel + k * kLanes + v, kLanes, rows + v * kDim + k, kDim);
  }
}

/// Rows [begin, end), multiples of 16, of a stored state.
template <class Stored>
void open_panels(const Stored* stored, int64_t begin, int64_t end, float* panels) {
  for (int64_t v = begin; v < end; v += kPanelRows) {
    if constexpr (sizeof(Stored) == sizeof(float)) {
      rows_to_panel(stored + v * kDim, panels + v * kDim);
    } else {
      alignas(64) float wide[kPanel];
      for (int64_t at = 0; at < kPanel; at += kLanes) store(wide + at, load(stored + v * kDim + at));
      rows_to_panel(wide, panels + v * kDim);
    }
  }
}

/// Back to fp32 rows, their columns in their own order.
inline void close_panels(const float* panels, int64_t begin, int64_t end, float* rows) {
  for (int64_t v = begin; v < end; v += kPanelRows) panel_to_rows(panels + v * kDim, rows + v * kDim);
}

/// fp32 rows [begin, end) to a stored state, with its one rounding.
template <class Stored>
void store_rows(const float* rows, int64_t begin, int64_t end, Stored* stored) {
  for (int64_t at = begin * kDim; at < end * kDim; at += kPairColumns) {
    store_pair(stored + at, pair_of_columns<Stored>(load(rows + at), load(rows + at + kLanes)));
  }
}

}  // namespace silt::SILT_SIMD_NAMESPACE::prefill
SILT_SIMD_END;
