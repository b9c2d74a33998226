// The three stages of attn_res on one tile of columns; simd_rows.inl.hpp puts them together.
//
// Every function takes addresses of the tile's first column and a number of Pairs. The last D % 32 columns of a row are
// a tile of their own, in padded copies: zeros add nothing to a sum.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "attn_res/cpu/cpu_simd_rows.hpp"
#include "simd/math.inl.hpp"

SILT_SIMD_BEGIN;
namespace silt::SILT_SIMD_NAMESPACE::attn_res_rows {

using attn_res_cpu_simd_rows::kTileColumns;

// ---- Sizes
/// Rows whose statistics share one load of the weights: two accumulators a row, as many as the registers hold.
constexpr int kGroup = kParts == 1 ? 9 : 2;
/// Up to so many blocks, statistics are summed in the form with the shorter wait.
constexpr int kFewBlocks = 2;
/// Of a later token's bank rows the mixture asks for the first half, the output for one more and the statistics for the
/// rest. A core overlaps lines from memory with lines from L2 only as long as they come at an even pace: with all of
/// four rows asked for by the mixture, reads from L2 wait behind those from memory (1.2x the time).
constexpr int asked_by_mixture(int64_t blocks) { return static_cast<int>(std::min<int64_t>((blocks + 1) / 2, 4)); }
constexpr int asked_by_output(int64_t blocks) { return blocks > asked_by_mixture(blocks) + 1 ? 1 : 0; }
/// Sources of one pass of the mixture: the eight blocks of a model and the prefix.
constexpr int kMixed = 9;

/// Columns [begin, begin + columns): a multiple of 32, or the last D % 32 of the row.
struct Tile {
  int64_t begin = 0;
  int64_t columns = 0;

  [[nodiscard]] bool padded() const { return columns < kPairColumns; }
  [[nodiscard]] int64_t pairs() const { return padded() ? 1 : columns / kPairColumns; }
};

inline int64_t tile_count(int64_t d) {
  const int64_t whole = d / kPairColumns * kPairColumns;
  return (whole + kTileColumns - 1) / kTileColumns + (whole < d ? 1 : 0);
}

inline Tile tile_at(int64_t d, int64_t index) {
  const int64_t whole = d / kPairColumns * kPairColumns;
  const int64_t begin = std::min(index * kTileColumns, whole);
  return {begin, begin < whole ? std::min(kTileColumns, whole - begin) : d - whole};
}

/// Where the loops read the tile's columns of `row`: in place, or in a copy padded with zeros.
template <class T>
const T* columns_of(Tile tile, const T* row, T* pad) {
  if (!tile.padded()) return row + tile.begin;
  std::memset(static_cast<void*>(pad), 0, kPairColumns * sizeof(T));
  std::copy_n(row + tile.begin, tile.columns, pad);
  return pad;
}

/// Where the loops write the tile's columns of `row`; `written` brings a padded copy home.
template <class T>
T* target_of(Tile tile, T* row, T* pad) {
  return tile.padded() ? pad : row + tile.begin;
}
template <class T>
void written(Tile tile, T* row, const T* pad) {
  if (tile.padded()) std::copy_n(pad, tile.columns, row + tile.begin);
}

/// Whether rows at this address and distance can be written past the caches.
template <class Act>
bool aligned_for_streams(const void* data, int64_t row_stride) {
  constexpr int64_t kLine = 64;
  const auto address = reinterpret_cast<uintptr_t>(data);
  return address % kLine == 0 && row_stride * static_cast<int64_t>(sizeof(Act)) % kLine == 0;
}

// ---- Stage 1: statistics
/// total += lanes, or total = lanes for the first tile of a row.
SILT_INLINE void accumulate(float* total, Lanes lanes, bool first) {
  store(total, first ? lanes : add(load(total), lanes));
}

/// v * w by lanes: both columns of a lane added.
SILT_INLINE Lanes dot_of(Pair v, Pair w) { return multiply_add(v.second, w.second, multiply(v.first, w.first)); }

template <class Act>
struct PrefixColumns {
  Act* prefix;
  const Act* delta;  ///< null where absent
  Act* slot;         ///< null where nothing is written
  bool stream_slot;
  const Act* prefix_ahead;
  const Act* delta_ahead;
};

/// p = round(prefix + delta) of 32 columns, to the prefix row and the slot as well.
template <class Act>
SILT_INLINE Packed<Act> prefix_at(const PrefixColumns<Act>& row, int64_t c) {
  if (row.prefix_ahead != nullptr) prefetch_l2(row.prefix_ahead + c);
  Packed<Act> p = load_packed(row.prefix + c);
  if (row.delta != nullptr) {
    if (row.delta_ahead != nullptr) prefetch_l2(row.delta_ahead + c);
    const Pair a = unpack(p);
    const Pair b = load_pair(row.delta + c);
    p = pack_widened<Act>({add(a.first, b.first), add(a.second, b.second)});
    store_packed(row.prefix + c, p);
  }
  if (row.slot != nullptr) {
    if (row.stream_slot) {
      stream_packed(row.slot + c, p);
    } else {
      store_packed(row.slot + c, p);
    }
  }
  return p;
}

/// All of a tile's p, and the sum of its squares.
template <class Act>
void prefix_columns(const PrefixColumns<Act>& row, int64_t pairs, bool first, float* total) {
  Lanes squares = zero();
  for (int64_t c = 0; c < pairs * kPairColumns; c += kPairColumns) {
    squares = add(squares, add_squares(prefix_at(row, c), zero()));
  }
  accumulate(total, squares, first);
}

/// Rows from `first` on are asked for on the way of their statistics, `distance` elements from where they are.
struct Asked {
  int first = std::numeric_limits<int>::max();
  int64_t distance = 0;
};

/// For each of `kRows` rows: sum v*w and sum v*v of a tile, added to totals[2 * kLanes] of the row. With kPrefix the
/// last of them is p, which is made here: that saves a load and its unpacking.
///
/// A sum that takes two multiply-adds a step waits for both: with few rows side by side that wait is what the loop
/// costs on wide registers. kShort adds the two columns first, one instruction more and one wait less. Which form a
/// call takes follows from its blocks alone (kFewBlocks), so that all targets give the same bits.
template <class Act, int kRows, bool kShort, bool kPrefix>
void statistics_columns(const Act* const* rows, const PrefixColumns<Act>* prefix, Asked asked, const float* weights,
                        int64_t pairs, bool first, float* totals) {
  constexpr int kBlocks = kPrefix ? kRows - 1 : kRows;
  // With sixteen registers p comes before the weights and the other rows, while some are free.
  constexpr bool kPrefixFirst = kParts > 1;
  // Copies: for all that the compiler knows, what is stored to p's row might be these addresses.
  const Act* block[kRows] = {};
  PrefixColumns<Act> last{};
  if constexpr (kPrefix) last = *prefix;
  Lanes dot[kRows];
  Lanes squares[kRows];
#pragma GCC unroll 9
  for (int r = 0; r < kRows; ++r) {
    dot[r] = squares[r] = zero();
    if (r < kBlocks) block[r] = rows[r];
  }
  for (int64_t c = 0; c < pairs * kPairColumns; c += kPairColumns) {
    // Before the others: a branch among them costs a target of sixteen registers a sum in memory, 1.2x the time.
#pragma GCC unroll 9
    for (int r = 0; r < kBlocks; ++r) {
      if (r >= asked.first) prefetch_l2(block[r] + asked.distance + c);
    }
    Packed<Act> p{};
    if constexpr (kPrefix && kPrefixFirst) p = prefix_at(last, c);
    const Pair w = load_packed(weights + c);
#pragma GCC unroll 9
    for (int i = 0; i < kRows; ++i) {
      const int r = kPrefixFirst ? kRows - 1 - i : i;
      if constexpr (kPrefix && !kPrefixFirst) {
        if (r == kBlocks) p = prefix_at(last, c);
      }
      const Packed<Act> packed = r < kBlocks ? load_packed(block[r] + c) : p;
      const Pair v = unpack(packed);
      if constexpr (kShort) {
        dot[r] = add(dot[r], dot_of(v, w));
        squares[r] = add(squares[r], add_squares(packed, zero()));
      } else {
        dot[r] = multiply_add(v.first, w.first, dot[r]);
        dot[r] = multiply_add(v.second, w.second, dot[r]);
        squares[r] = add_squares(packed, squares[r]);
      }
    }
  }
#pragma GCC unroll 9
  for (int r = 0; r < kRows; ++r) {
    accumulate(totals + 2 * kLanes * r, dot[r], first);
    accumulate(totals + 2 * kLanes * r + kLanes, squares[r], first);
  }
}

template <class Act>
using StatisticsColumns = void (*)(const Act* const*, const PrefixColumns<Act>*, Asked, const float*, int64_t, bool,
                                   float*);
/// By the number of blocks beside p.
template <class Act, bool kShort, int... kBlocks>
constexpr std::array<StatisticsColumns<Act>, sizeof...(kBlocks)> statistics_table(
    std::integer_sequence<int, kBlocks...>) {
  return {statistics_columns<Act, kBlocks + 1, kShort, true>...};
}

// ---- Between the stages
/// logits in place: exp(logit - largest), which `largest` receives, and their sum. Padded to a multiple of kLanes by
/// the caller with room for it; NaN where a logit is NaN.
inline float exponentials(float* x, int64_t count, float* largest) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  *largest = kNone;
  for (int64_t i = 0; i < count; ++i) *largest = std::max(*largest, x[i]);
  for (int64_t i = count; i % kLanes != 0; ++i) x[i] = kNone;
  Lanes total = zero();
  for (int64_t i = 0; i < count; i += kLanes) {
    const Lanes e = exp(subtract(load(x + i), broadcast(*largest)));
    store(x + i, e);
    total = add(total, e);
  }
  return sum(total);
}

/// logits in place: softmax.
inline void softmax(float* x, int64_t count) {
  float largest = 0;
  const Lanes denominator = broadcast(exponentials(x, count, &largest));
  for (int64_t i = 0; i < count; i += kLanes) store(x + i, divide(load(x + i), denominator));
}

/// 1 / sqrt(sum / d + eps); 0 where the sum overflowed.
SILT_INLINE Lanes inverse_rms(Lanes squares, int64_t d, float eps) {
  const Lanes mean = divide(squares, broadcast(static_cast<float>(d)));
  return divide(broadcast(1.0F), square_root(add(mean, broadcast(eps))));
}

inline float inverse_rms(const float* squares, int64_t d, float eps) {
  float lanes[kLanes];
  store(lanes, inverse_rms(broadcast(sum(load(squares))), d, eps));
  return lanes[0];
}

/// Totals of `sources` rows to softmax weights.
inline void softmax_weights(const float* totals, int64_t sources, int64_t d, float eps, float* weights) {
  alignas(64) float squares[kLanes] = {};
  for (int64_t base = 0; base < sources; base += kLanes) {
    const int64_t count = std::min<int64_t>(kLanes, sources - base);
    for (int64_t i = 0; i < count; ++i) {
      weights[base + i] = sum(load(totals + 2 * kLanes * (base + i)));
      squares[i] = sum(load(totals + 2 * kLanes * (base + i) + kLanes));
    }
    store(weights + base, multiply(load(weights + base), inverse_rms(load(squares), d, eps)));
  }
  softmax(weights, sources);
}

// ---- Stage 2: mixture
/// mixture (+)= sum of weight * row over `kRows` rows, with the sum of squares of the result. With `ahead` the first
/// rows of a bank at that address are asked for on the way.
template <class Act, int kRows, bool kFirst>
void mixture_columns(const Act* const* rows, const float* weights, int64_t pairs, const Act* ahead,
                     int64_t ahead_stride, bool first, float* mixture, float* total) {
  constexpr int kAsked = asked_by_mixture(kRows - 1);
  Lanes squares = zero();
  Lanes weight[kRows];
#pragma GCC unroll 9
  for (int r = 0; r < kRows; ++r) weight[r] = broadcast(weights[r]);
  for (int64_t c = 0; c < pairs * kPairColumns; c += kPairColumns) {
    if (ahead != nullptr) {
      for (int r = 0; r < kAsked; ++r) prefetch_l2(ahead + r * ahead_stride + c);
    }
    Pair a = kFirst ? Pair{zero(), zero()} : load_packed(mixture + c);
#pragma GCC unroll 9
    for (int r = 0; r < kRows; ++r) {
      const Pair v = load_pair(rows[r] + c);
      a.first = multiply_add(v.first, weight[r], a.first);
      a.second = multiply_add(v.second, weight[r], a.second);
    }
    store_packed(mixture + c, a);
    if constexpr (kRows <= kFewBlocks + 1) {
      squares = add(squares, add_squares(a, zero()));  // as in statistics_columns, kShort
    } else {
      squares = add_squares(a, squares);
    }
  }
  accumulate(total, squares, first);
}

template <class Act>
using MixtureColumns = void (*)(const Act* const*, const float*, int64_t, const Act*, int64_t, bool, float*, float*);
template <class Act, bool kFirst, int... kRows>
constexpr std::array<MixtureColumns<Act>, sizeof...(kRows)> mixture_table(std::integer_sequence<int, kRows...>) {
  return {mixture_columns<Act, kRows + 1, kFirst>...};
}

// ---- Stage 3: output
/// output = round(source * scale * g), or round(source) where `g` is null. With kAhead the row at `ahead` is asked for
/// on the way.
template <class Act, bool kAhead, class Source>
void output_columns(const Source* source, const Act* ahead, float scale, const bf16* g, int64_t pairs, bool stream,
                    Act* output) {
  const Lanes factor = broadcast(scale);
  for (int64_t c = 0; c < pairs * kPairColumns; c += kPairColumns) {
    if constexpr (kAhead) prefetch_l2(ahead + c);
    Pair v = load_pair(source + c);
    if (g != nullptr) {
      const Pair weight = load_weights<Act>(g + c);
      v.first = multiply(multiply(v.first, factor), weight.first);
      v.second = multiply(multiply(v.second, factor), weight.second);
    }
    const Packed<Act> packed = pack_widened<Act>(v);
    if (stream) {
      stream_packed(output + c, packed);
    } else {
      store_packed(output + c, packed);
    }
  }
}

}  // namespace silt::SILT_SIMD_NAMESPACE::attn_res_rows
SILT_SIMD_END;
