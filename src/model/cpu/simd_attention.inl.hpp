// What: attention over a tile of the cache (rows.hpp) on one SIMD target, bf16 or fp32 keys as they lie there.
//
// Plan: scores as blocks of a few rows times a few positions, each with sixteen partial sums along the width; the mix
// as a few rows times 64 columns, along the positions. Both keep their sums in registers.
//
// Rounding: fp32. A score is one chain of sixteen partial sums and one tree; a mixed column is one chain over the
// positions: neither depends on the block it is computed in.
#pragma once

#include <algorithm>
#include <limits>

#include "model/cpu/rows.hpp"
#include "simd/math.inl.hpp"

SILT_SIMD_BEGIN;
namespace silt::SILT_SIMD_NAMESPACE::attention {

constexpr int kBlockRows = kParts == 1 ? 4 : 2;
constexpr int kBlockPositions = 4;
constexpr int kBlockLanes = kParts == 4 ? 2 : 4;  ///< of columns in the mix

#define SILT_EACH_ROW _Pragma("GCC unroll 4") for (int r = 0; r < kRows; ++r)
#define SILT_EACH_POSITION _Pragma("GCC unroll 4") for (int p = 0; p < kPositions; ++p)
#define SILT_EACH_LANES _Pragma("GCC unroll 4") for (int j = 0; j < kColumns; ++j)

/// Up to sixteen values, zeros behind them.
template <class T>
SILT_INLINE Lanes load_some(const T* from, int64_t count) {
  if (count >= kLanes) return load(from);
  T some[kLanes] = {};
  std::copy_n(from, count, some);
  return load(some);
}

template <class Key, int kRows, int kPositions>
SILT_INLINE void score_block(const AttentionTile& t, int64_t row, int64_t position) {
  Lanes sums_of[kRows][kPositions];
  SILT_EACH_ROW SILT_EACH_POSITION sums_of[r][p] = zero();
  const Key* keys = static_cast<const Key*>(t.keys) + position * t.width;
  const float* queries = t.queries + row * t.width;
  for (int64_t c = 0; c < t.width; c += kLanes) {
    Lanes key[kPositions];
    SILT_EACH_POSITION key[p] = load_some(keys + p * t.width + c, t.width - c);
    SILT_EACH_ROW {
      const Lanes query = load_some(queries + r * t.width + c, t.width - c);
      SILT_EACH_POSITION sums_of[r][p] = multiply_add(query, key[p], sums_of[r][p]);
    }
  }
  SILT_EACH_ROW {
    float* to = t.scores + (row + r) * kTilePositions + position;
    if constexpr (kPositions == 4) {
      sums(sums_of[r][0], sums_of[r][1], sums_of[r][2], sums_of[r][3], to);
    } else {
      SILT_EACH_POSITION to[p] = sum(sums_of[r][p]);
    }
  }
}

template <class Key, int kRows>
void score_rows(const AttentionTile& t, int64_t row) {
  int64_t position = 0;
  for (; position + kBlockPositions <= t.positions; position += kBlockPositions) {
    score_block<Key, kRows, kBlockPositions>(t, row, position);
  }
  for (; position < t.positions; ++position) score_block<Key, kRows, 1>(t, row, position);
}

template <class Key, int kRows, int kColumns>
SILT_INLINE void mix_block(const AttentionTile& t, int64_t row, int64_t column) {
  Lanes mixed[kRows][kColumns];
  const int64_t left = t.latent - column;
  SILT_EACH_ROW {
    const Lanes factor = broadcast(t.factors[row + r]);
    SILT_EACH_LANES {
      const float* from = t.sums + (row + r) * t.latent + column + j * kLanes;
      mixed[r][j] = multiply(load_some(from, left - j * kLanes), factor);
    }
  }
  const Key* keys = static_cast<const Key*>(t.keys) + column;
  const float* scores = t.scores + row * kTilePositions;
  for (int64_t p = 0; p < t.positions; ++p, keys += t.width, ++scores) {
    Lanes key[kColumns];
    SILT_EACH_LANES key[j] = load_some(keys + j * kLanes, left - j * kLanes);
    SILT_EACH_ROW {
      const Lanes score = broadcast(scores[r * kTilePositions]);
      SILT_EACH_LANES mixed[r][j] = multiply_add(key[j], score, mixed[r][j]);
    }
  }
  SILT_EACH_ROW {
    SILT_EACH_LANES {
      float* to = t.sums + (row + r) * t.latent + column + j * kLanes;
      if (left - j * kLanes >= kLanes) {
        store(to, mixed[r][j]);
      } else {
        float some[kLanes];
        store(some, mixed[r][j]);
        std::copy_n(some, left - j * kLanes, to);
      }
    }
  }
}

template <class Key, int kRows>
void mix_rows(const AttentionTile& t, int64_t row) {
  int64_t column = 0;
  for (; column + kBlockLanes * kLanes <= t.latent; column += kBlockLanes * kLanes) {
    mix_block<Key, kRows, kBlockLanes>(t, row, column);
  }
  for (; column < t.latent; column += kLanes) mix_block<Key, kRows, 1>(t, row, column);
}

template <class Key>
void score(const AttentionTile& t) {
  int64_t row = 0;
  for (; row + kBlockRows <= t.rows; row += kBlockRows) score_rows<Key, kBlockRows>(t, row);
  if (kBlockRows > 2 && row + 2 <= t.rows) {
    score_rows<Key, 2>(t, row);
    row += 2;
  }
  if (row < t.rows) score_rows<Key, 1>(t, row);
}

template <class Key>
void mix(const AttentionTile& t) {
  int64_t row = 0;
  for (; row + kBlockRows <= t.rows; row += kBlockRows) mix_rows<Key, kBlockRows>(t, row);
  if (kBlockRows > 2 && row + 2 <= t.rows) {
    mix_rows<Key, 2>(t, row);
    row += 2;
  }
  if (row < t.rows) mix_rows<Key, 1>(t, row);
}

inline float softmax(float* scores, int64_t visible, float scale, float* largest, float* total) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  if (visible == 0) {
    std::fill_n(scores, kTilePositions, 0.0F);
    return 1.0F;
  }
  // Behind the visible ones -inf, which is the least and whose exponential is zero.
  std::fill(scores + visible, scores + kTilePositions, kLowest);
  Lanes most = broadcast(kLowest);
  for (int64_t p = 0; p < kTilePositions; p += kLanes) {
    const Lanes scaled = multiply(load(scores + p), broadcast(scale));
    store(scores + p, scaled);
    SILT_EACH_PART most.part[i] = hn::Max(most.part[i], scaled.part[i]);
  }
  alignas(64) float lanes[kLanes];
  store(lanes, most);
  float top = *largest;
  for (const float lane : lanes) top = lane > top ? lane : top;
  Lanes sums_of = zero();
  for (int64_t p = 0; p < kTilePositions; p += kLanes) {
    const Lanes share = exp(subtract(load(scores + p), broadcast(top)));
    store(scores + p, share);
    sums_of = add(sums_of, share);
  }
  store(lanes, exp(broadcast(*largest - top)));
  const float factor = *total == 0 ? 0.0F : lanes[0];
  *largest = top;
  *total = *total * factor + sum(sums_of);
  return factor;
}

#undef SILT_EACH_ROW
#undef SILT_EACH_POSITION
#undef SILT_EACH_LANES

inline AttentionKernels kernels() {
  return {.score = {score<bf16>, score<float>}, .mix = {mix<bf16>, mix<float>}, .softmax = softmax};
}

}  // namespace silt::SILT_SIMD_NAMESPACE::attention
SILT_SIMD_END;
