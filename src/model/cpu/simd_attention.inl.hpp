// What: attention over a tile of the cache (rows.hpp) on one SIMD target, bf16 or fp32 keys as they lie there.
//
// Plan: scores as blocks of a few rows times a few positions, each with sixteen partial sums along the width; the mix
// as a few rows times 64 columns, along the positions. Both keep their sums in registers. bf16 keys are taken apart
// into even and odd columns, half the work of widening them in order: queries are brought into that order before the
// first tile (arrange) and sums out of it after the last one (restore).
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
constexpr int kBlockPositions = kParts == 1 ? 4 : 2;
constexpr int kBlockPairs = kParts == 1 ? 2 : 1;  ///< of columns in the mix

#define SILT_EACH_ROW _Pragma("GCC unroll 4") for (int r = 0; r < kRows; ++r)
#define SILT_EACH_POSITION _Pragma("GCC unroll 4") for (int p = 0; p < kPositions; ++p)
#define SILT_EACH_PAIR _Pragma("GCC unroll 2") for (int j = 0; j < kPairs; ++j)

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
  int64_t c = 0;
  for (; c + kPairColumns <= t.width; c += kPairColumns) {
    Pair key[kPositions];
    SILT_EACH_POSITION key[p] = load_pair(keys + p * t.width + c);
    SILT_EACH_ROW {
      const Lanes first = load(queries + r * t.width + c);
      const Lanes second = load(queries + r * t.width + c + kLanes);
      SILT_EACH_POSITION sums_of[r][p] =
          multiply_add(second, key[p].second, multiply_add(first, key[p].first, sums_of[r][p]));
    }
  }
  for (; c < t.width; c += kLanes) {
    SILT_EACH_ROW {
      const Lanes query = load_some(queries + r * t.width + c, t.width - c);
      SILT_EACH_POSITION {
        const Lanes key = load_some(keys + p * t.width + c, t.width - c);
        sums_of[r][p] = multiply_add(query, key, sums_of[r][p]);
      }
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

/// Asks for the keys some blocks ahead of this one, across the end of the tile: short rows side by side hide the stream
/// from the hardware. Decoding with 1000 and 2000 positions is 1.1 to 1.3 times as fast as without; asking for them in
/// L1 keeps a third to two thirds of that, because a core has few L1 misses in flight; 4 or 48 blocks ahead are within
/// a few per cent of 16.
template <class Key>
SILT_INLINE void prefetch_keys(const AttentionTile& t, int64_t position) {
  constexpr int64_t kBlocksAhead = 16;
  const Key* first = static_cast<const Key*>(t.keys) + (position + kBlocksAhead * kBlockPositions) * t.width;
  constexpr auto kLine = static_cast<int64_t>(64 / sizeof(Key));
  for (int64_t i = 0; i < kBlockPositions * t.width; i += kLine) prefetch_l2(first + i);
}

template <class Key, int kRows>
void score_rows(const AttentionTile& t, int64_t row) {
  int64_t position = 0;
  for (; position + kBlockPositions <= t.positions; position += kBlockPositions) {
    if (row == 0) prefetch_keys<Key>(t, position);
    score_block<Key, kRows, kBlockPositions>(t, row, position);
  }
  for (; position < t.positions; ++position) score_block<Key, kRows, 1>(t, row, position);
}

template <class Key, int kRows, int kPairs>
SILT_INLINE void mix_block(const AttentionTile& t, int64_t row, int64_t column) {
  Pair mixed[kRows][kPairs];
  float* sums_at = t.sums + row * t.latent + column;
  SILT_EACH_ROW {
    const Lanes factor = broadcast(t.factors[row + r]);
    SILT_EACH_PAIR {
      const float* from = sums_at + r * t.latent + j * kPairColumns;
      mixed[r][j] = {multiply(load(from), factor), multiply(load(from + kLanes), factor)};
    }
  }
  const Key* keys = static_cast<const Key*>(t.keys) + column;
  const float* scores = t.scores + row * kTilePositions;
  for (int64_t p = 0; p < t.positions; ++p, keys += t.width, ++scores) {
    Pair key[kPairs];
    SILT_EACH_PAIR key[j] = load_pair(keys + j * kPairColumns);
    SILT_EACH_ROW {
      const Lanes score = broadcast(scores[r * kTilePositions]);
      SILT_EACH_PAIR {
        mixed[r][j].first = multiply_add(key[j].first, score, mixed[r][j].first);
        mixed[r][j].second = multiply_add(key[j].second, score, mixed[r][j].second);
      }
    }
  }
  SILT_EACH_ROW SILT_EACH_PAIR {
    float* to = sums_at + r * t.latent + j * kPairColumns;
    store(to, mixed[r][j].first);
    store(to + kLanes, mixed[r][j].second);
  }
}

/// The last columns of a row, fewer than 32 of them, sixteen at a time.
template <class Key>
SILT_INLINE void mix_rest(const AttentionTile& t, int64_t row, int64_t column) {
  for (; column < t.latent; column += kLanes) {
    const int64_t left = std::min<int64_t>(kLanes, t.latent - column);
    float* to = t.sums + row * t.latent + column;
    Lanes mixed = multiply(load_some(to, left), broadcast(t.factors[row]));
    const Key* keys = static_cast<const Key*>(t.keys) + column;
    for (int64_t p = 0; p < t.positions; ++p, keys += t.width) {
      mixed = multiply_add(load_some(keys, left), broadcast(t.scores[row * kTilePositions + p]), mixed);
    }
    float some[kLanes];
    store(some, mixed);
    std::copy_n(some, left, to);
  }
}

template <class Key, int kRows>
void mix_rows(const AttentionTile& t, int64_t row) {
  int64_t column = 0;
  for (; column + kBlockPairs * kPairColumns <= t.latent; column += kBlockPairs * kPairColumns) {
    mix_block<Key, kRows, kBlockPairs>(t, row, column);
  }
  for (; column + kPairColumns <= t.latent; column += kPairColumns) mix_block<Key, kRows, 1>(t, row, column);
  if (column < t.latent) {
    for (int r = 0; r < kRows; ++r) mix_rest<Key>(t, row + r, column);
  }
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

/// Whole 32s of columns from their own order to that of bf16 pairs, and back.
inline void arrange(float* row, int64_t count) {
  for (int64_t c = 0; c + kPairColumns <= count; c += kPairColumns) {
    const Pair pair = pair_of_columns<bf16>(load(row + c), load(row + c + kLanes));
    store(row + c, pair.first);
    store(row + c + kLanes, pair.second);
  }
}
inline void restore(float* row, int64_t count) {
  for (int64_t c = 0; c + kPairColumns <= count; c += kPairColumns) {
    const Pair columns = columns_of_pair<bf16>({load(row + c), load(row + c + kLanes)});
    store(row + c, columns.first);
    store(row + c + kLanes, columns.second);
  }
}
inline void keep(float*, int64_t) {}

#undef SILT_EACH_ROW
#undef SILT_EACH_POSITION
#undef SILT_EACH_PAIR

inline AttentionKernels kernels() {
  return {.score = {score<bf16>, score<float>},
          .mix = {mix<bf16>, mix<float>},
          .softmax = softmax,
          .arrange = {arrange, keep},
          .restore = {restore, keep}};
}

}  // namespace silt::SILT_SIMD_NAMESPACE::attention
SILT_SIMD_END;
