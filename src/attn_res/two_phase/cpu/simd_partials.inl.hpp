// What: attn_res_partials (contract.md) on one SIMD target.
//
// When: every checked problem; any strides, alignment to 2 bytes, any D (the last D % 32 columns go through padded
// copies), any number of blocks, bf16 and fp32.
//
// Plan: tokens in contiguous ranges over the workers; with fewer tokens than workers the tiles of the rows are shared
// out instead, with one join (run_tiles). A token is two passes over its rows, tile by tile: statistics, a few rows by
// a few queries at a time, as many sums as the registers hold; then the mixtures, a few queries at a time, which find
// the rows in L2. Arithmetic is the longer part by far (4 multiply-adds a column for each row and query), so that loads
// are what the blocking saves.
//
// Data path: the bank rows of the next token are asked for on the way of the statistics, one line a step. The weights
// of all queries (4*Q*D bytes) stay in L2, those of a few queries and the rows of a tile in L1. Mixtures are streamed
// past the caches where the call writes more than they hold.
//
// Bytes: 2*D*nb read, Q*(2*D + 8) written per token at bf16 (cost.cpp).
//
// Rounding: fp32 throughout, one rounding at a mixture. A statistic is sixteen partial sums per tile, added tile after
// tile and then by halves: bits depend on the row and the query alone, not on Q, thread count, split or target.
#pragma once

#include "attn_res/cpu/simd_stages.inl.hpp"
#include "attn_res/two_phase/cpu/cpu_simd_rows.hpp"
#include "core/join.hpp"
#include "core/scratch.hpp"
#include "core/status.hpp"
#include "core/workers.hpp"
#include "device/facts.hpp"

SILT_SIMD_BEGIN;
namespace silt::SILT_SIMD_NAMESPACE::attn_res_partials_rows {

using attn_res_rows::accumulate;
using attn_res_rows::aligned_for_streams;
using attn_res_rows::columns_of;
using attn_res_rows::exponentials;
using attn_res_rows::inverse_rms;
using attn_res_rows::Tile;
using attn_res_rows::tile_at;
using attn_res_rows::tile_count;

// ---- Sizes
/// Rows and queries whose dot products are formed side by side: a sum of sixteen lanes for each pair of them. 4 * 4 of
/// 32 wide registers, 2 * 2 * 2 of 16 narrow ones; the rest holds operands.
constexpr int kPassRows = kParts == 1 ? 4 : 2;
constexpr int kPassQueries = kPassRows;
/// Queries whose mixtures are formed side by side: a Pair each.
constexpr int kMixedQueries = kParts == 1 ? 8 : 2;
/// Below this many bytes the caller works alone: handing work to a spinning worker costs about a microsecond.
constexpr int64_t kBytesAlone = 32 << 10;

inline int64_t whole_lanes(int64_t count) { return (count + kLanes - 1) / kLanes * kLanes; }
inline int64_t whole_pairs(int64_t d) { return (d + kPairColumns - 1) / kPairColumns * kPairColumns; }

/// Rows of one tile: columns, and how far one row is behind the other.
template <class T>
struct Rows {
  T* first;
  int64_t stride;

  T* operator[](int64_t i) const { return first + i * stride; }
};

// ---- Stage 1: statistics
/// dot products of `kRows` rows and `kQueries` queries over a tile, added to totals[r][q].
template <class Act, int kRows, int kQueries>
void dots_columns(Rows<const Act> rows, Rows<const float> weights, int64_t pairs, const Act* ahead, bool first,
                  Rows<float> totals) {
  Lanes dots[kRows][kQueries];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int q = 0; q < kQueries; ++q) dots[r][q] = zero();
  }
  for (int64_t c = 0; c < pairs * kPairColumns; c += kPairColumns) {
    if (ahead != nullptr) prefetch_l2(ahead + c);
    SILT_EACH_PART {
      PairPart v[kRows];
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) v[r] = load_pair_part(rows[r] + c, i);
#pragma GCC unroll 4
      for (int q = 0; q < kQueries; ++q) {
        const PairPart w = load_pair_part(weights[q] + c, i);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) {
          FloatVector& dot = dots[r][q].part[i];
          dot = hn::MulAdd(v[r].second, w.second, hn::MulAdd(v[r].first, w.first, dot));
        }
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int q = 0; q < kQueries; ++q) accumulate(totals[r] + q * kLanes, dots[r][q], first);
  }
}

/// sums of squares of `kRows` rows over a tile.
template <class Act, int kRows>
void squares_columns(Rows<const Act> rows, int64_t pairs, bool first, Rows<float> totals) {
  Lanes squares[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) squares[r] = zero();
  for (int64_t c = 0; c < pairs * kPairColumns; c += kPairColumns) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) squares[r] = add_squares(load_packed(rows[r] + c), squares[r]);
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) accumulate(totals[r], squares[r], first);
}

template <class Act>
using DotsColumns = void (*)(Rows<const Act>, Rows<const float>, int64_t, const Act*, bool, Rows<float>);
template <class Act, int... kIndex>
constexpr std::array<DotsColumns<Act>, sizeof...(kIndex)> dots_table(std::integer_sequence<int, kIndex...>) {
  return {dots_columns<Act, kIndex / kPassQueries + 1, kIndex % kPassQueries + 1>...};
}
template <class Act>
using SquaresColumns = void (*)(Rows<const Act>, int64_t, bool, Rows<float>);
template <class Act, int... kIndex>
constexpr std::array<SquaresColumns<Act>, sizeof...(kIndex)> squares_table(std::integer_sequence<int, kIndex...>) {
  return {squares_columns<Act, kIndex + 1>...};
}

// ---- Stage 2: mixtures
template <class Act, class Partial>
SILT_INLINE void store_partial(Partial* to, Pair v, bool stream) {
  Packed<Partial> packed;
  if constexpr (sizeof(Partial) == 2) {
    packed = pack_widened<Partial>(v);
  } else {
    packed = columns_of_pair<Act>(v);
  }
  if (stream) {
    stream_packed(to, packed);
  } else {
    store_packed(to, packed);
  }
}

/// mix[q] = round(sum over the n rows of weights[q][row] * row) for `kQueries` queries.
template <class Act, class Partial, int kQueries>
void mixtures_columns(Rows<const Act> rows, int64_t n, Rows<const float> weights, int64_t pairs, bool stream,
                      Rows<Partial> mix) {
  for (int64_t c = 0; c < pairs * kPairColumns; c += kPairColumns) {
    Pair sums[kQueries];
#pragma GCC unroll 8
    for (int q = 0; q < kQueries; ++q) sums[q] = {zero(), zero()};
    for (int64_t r = 0; r < n; ++r) {
      const Pair v = load_pair(rows[r] + c);
#pragma GCC unroll 8
      for (int q = 0; q < kQueries; ++q) {
        const Lanes weight = broadcast(weights[q][r]);
        sums[q].first = multiply_add(v.first, weight, sums[q].first);
        sums[q].second = multiply_add(v.second, weight, sums[q].second);
      }
    }
#pragma GCC unroll 8
    for (int q = 0; q < kQueries; ++q) store_partial<Act>(mix[q] + c, sums[q], stream);
  }
}

template <class Act, class Partial>
using MixturesColumns = void (*)(Rows<const Act>, int64_t, Rows<const float>, int64_t, bool, Rows<Partial>);
template <class Act, class Partial, int... kIndex>
constexpr std::array<MixturesColumns<Act, Partial>, sizeof...(kIndex)> mixtures_table(
    std::integer_sequence<int, kIndex...>) {
  return {mixtures_columns<Act, Partial, kIndex + 1>...};
}

// ---- The call and its memory
template <class Act, class Partial>
struct Call {
  const AttnResPartialsProblem& p;
  const AttnResPartialsArgs& args;
  bool stream = false;

  [[nodiscard]] const Act* slot(int64_t t, int64_t i) const {
    return static_cast<const Act*>(args.blocks.data) + t * p.block_token_stride + i * p.block_slot_stride;
  }
  [[nodiscard]] float* statistics(int64_t q, int64_t t) const {
    return static_cast<float*>(args.statistics.data) + q * p.statistics_query_stride + t * p.statistics_token_stride;
  }
  [[nodiscard]] Partial* mix(int64_t q, int64_t t) const {
    return static_cast<Partial*>(args.mix.data) + q * p.mix_query_stride + t * p.mix_token_stride;
  }
};

/// A worker's part of the scratch, in floats. Rows of weights are in the order of a Pair, padded to whole Pairs.
struct Workspace {
  Rows<float> query_weights;  ///< norm_weight * qk_weight of every query
  Rows<float> totals;         ///< per source: squares and the dot products of every query, sixteen partial sums each
  float* inverse;             ///< per source: the reciprocal root of its mean square
  Rows<float> weights;        ///< per query: exp(logit - largest) of every source
  float* pads;                ///< rows of a tile narrower than a Pair

  static int64_t totals_stride(const AttnResPartialsProblem& p) { return kLanes * (p.q + 1); }
  static int64_t floats(const AttnResPartialsProblem& p) {
    const int64_t used = p.q * whole_pairs(p.d) + p.n * totals_stride(p) + (p.q + 1) * whole_lanes(p.n) +
                         std::max(p.n, p.q) * kPairColumns;
    return (used + 1023) / 1024 * 1024;  // whole pages: workers do not share lines
  }
  Workspace(const AttnResPartialsProblem& p, float* at)
      : query_weights{at, whole_pairs(p.d)},
        totals{query_weights[p.q], totals_stride(p)},
        inverse(totals[p.n]),
        weights{inverse + whole_lanes(p.n), whole_lanes(p.n)},
        pads(weights[p.q]) {}
};

// ---- The stages of one token on one tile
template <class Act, class Partial>
void fill_weights(const Call<Act, Partial>& call, Tile tile, Rows<float> weights) {
  alignas(64) bf16 pads[2][kPairColumns];
  const auto* norms = static_cast<const bf16*>(call.args.norm_weight.data);
  const auto* qks = static_cast<const bf16*>(call.args.qk_weight.data);
  for (int64_t q = 0; q < call.p.q; ++q) {
    const bf16* norm = columns_of(tile, norms + q * call.p.norm_weight_stride, pads[0]);
    const bf16* qk = columns_of(tile, qks + q * call.p.qk_weight_stride, pads[1]);
    for (int64_t c = 0; c < tile.pairs() * kPairColumns; c += kPairColumns) {
      const Pair a = load_weights<Act>(norm + c);
      const Pair b = load_weights<Act>(qk + c);
      store_packed(weights[q] + tile.begin + c, {multiply(a.first, b.first), multiply(a.second, b.second)});
    }
  }
}

/// The bank rows of a tile, in place or in padded copies.
template <class Act, class Partial>
Rows<const Act> bank_rows(const Call<Act, Partial>& call, int64_t t, Tile tile, float* pads) {
  if (!tile.padded()) return {call.slot(t, 0) + tile.begin, call.p.block_slot_stride};
  auto* copies = reinterpret_cast<Act*>(pads);
  for (int64_t r = 0; r < call.p.n; ++r) columns_of(tile, call.slot(t, r), copies + r * kPairColumns);
  return {copies, kPairColumns};
}

/// Squares and dot products of all sources; the rows of token `ahead` are asked for, if it is not negative.
template <class Act, class Partial>
void statistics_tile(const Call<Act, Partial>& call, int64_t t, int64_t ahead, Tile tile, bool first,
                     const Workspace& work, Rows<float> totals) {
  static constexpr auto kDots = dots_table<Act>(std::make_integer_sequence<int, kPassRows * kPassQueries>());
  static constexpr auto kSquares = squares_table<Act>(std::make_integer_sequence<int, kPassRows>());
  const AttnResPartialsProblem& p = call.p;
  const Rows<const Act> rows = bank_rows(call, t, tile, work.pads);
  const int64_t passes = ((p.n + kPassRows - 1) / kPassRows) * ((p.q + kPassQueries - 1) / kPassQueries);
  for (int64_t r = 0; r < p.n; r += kPassRows) {
    const int64_t count = std::min<int64_t>(kPassRows, p.n - r);
    kSquares[static_cast<size_t>(count - 1)]({rows[r], rows.stride}, tile.pairs(), first, {totals[r], totals.stride});
  }
  int64_t pass = 0;
  for (int64_t q = 0; q < p.q; q += kPassQueries) {
    const int64_t queries = std::min<int64_t>(kPassQueries, p.q - q);
    for (int64_t r = 0; r < p.n; r += kPassRows, ++pass) {
      const int64_t count = std::min<int64_t>(kPassRows, p.n - r);
      // Pass by pass one row after the other, spread over all passes.
      const int64_t asked = pass * p.n / passes;
      const bool ask = ahead >= 0 && asked < (pass + 1) * p.n / passes;
      kDots[static_cast<size_t>((count - 1) * kPassQueries + queries - 1)](
          {rows[r], rows.stride}, {work.query_weights[q] + tile.begin, work.query_weights.stride}, tile.pairs(),
          ask ? call.slot(ahead, asked) + tile.begin : nullptr, first, {totals[r] + (1 + q) * kLanes, totals.stride});
    }
  }
}

/// Totals of a token to the weights of its sources; with `statistics` m and s of every query are written.
template <class Act, class Partial>
void weigh(const Call<Act, Partial>& call, int64_t t, Rows<float> totals, bool statistics, const Workspace& work) {
  const AttnResPartialsProblem& p = call.p;
  for (int64_t base = 0; base < p.n; base += kLanes) {
    alignas(64) float squares[kLanes] = {};
    for (int64_t i = 0; i < std::min<int64_t>(kLanes, p.n - base); ++i) squares[i] = sum(load(totals[base + i]));
    store(work.inverse + base, inverse_rms(load(squares), p.d, call.args.eps));
  }
  for (int64_t q = 0; q < p.q; ++q) {
    float* weights = work.weights[q];
    for (int64_t i = 0; i < whole_lanes(p.n); ++i) {
      weights[i] = i < p.n ? sum(load(totals[i] + (1 + q) * kLanes)) : 0;
    }
    for (int64_t i = 0; i < p.n; i += kLanes) {
      store(weights + i, multiply(load(weights + i), load(work.inverse + i)));
    }
    float largest = 0;
    const float denominator = exponentials(weights, p.n, &largest);
    if (!statistics) continue;
    call.statistics(q, t)[0] = largest;
    call.statistics(q, t)[1] = denominator;
  }
}

template <class Act, class Partial>
void mixtures_tile(const Call<Act, Partial>& call, int64_t t, Tile tile, const Workspace& work) {
  static constexpr auto kTable = mixtures_table<Act, Partial>(std::make_integer_sequence<int, kMixedQueries>());
  const AttnResPartialsProblem& p = call.p;
  const Rows<const Act> rows = bank_rows(call, t, tile, work.pads);
  alignas(64) Partial pads[kMixedQueries][kPairColumns];
  for (int64_t q = 0; q < p.q; q += kMixedQueries) {
    const int64_t queries = std::min<int64_t>(kMixedQueries, p.q - q);
    const Rows<Partial> mix = tile.padded() ? Rows<Partial>{pads[0], kPairColumns}
                                            : Rows<Partial>{call.mix(q, t) + tile.begin, p.mix_query_stride};
    kTable[static_cast<size_t>(queries - 1)](rows, p.n, {work.weights[q], work.weights.stride}, tile.pairs(),
                                             call.stream && !tile.padded(), mix);
    for (int64_t i = 0; tile.padded() && i < queries; ++i) {
      std::copy_n(pads[i], tile.columns, call.mix(q + i, t) + tile.begin);
    }
  }
}

// ---- Many tokens, and fewer than workers
template <class Act, class Partial>
void run_tokens(const Call<Act, Partial>& call, int64_t begin, int64_t end, const Workspace& work) {
  const int64_t tiles = tile_count(call.p.d);
  for (int64_t i = 0; i < tiles; ++i) fill_weights(call, tile_at(call.p.d, i), work.query_weights);
  for (int64_t t = begin; t < end; ++t) {
    for (int64_t i = 0; i < tiles; ++i) {
      statistics_tile(call, t, t + 1 < end ? t + 1 : -1, tile_at(call.p.d, i), i == 0, work, work.totals);
    }
    weigh(call, t, work.totals, true, work);
    for (int64_t i = 0; i < tiles; ++i) mixtures_tile(call, t, tile_at(call.p.d, i), work);
  }
  stream_fence();
}

/// Tiles [begin, end) of all tokens' tiles; `shared` has the totals of every one of them. `join` is null where one
/// participant does everything.
template <class Act, class Partial>
void run_tiles(const Call<Act, Partial>& call, int64_t begin, int64_t end, const Workspace& work, float* shared,
               Join* join) {
  const AttnResPartialsProblem& p = call.p;
  const int64_t tiles = tile_count(p.d);
  const int64_t stride = Workspace::totals_stride(p);
  for (int64_t item = begin; item < end; ++item) {
    const Tile tile = tile_at(p.d, item % tiles);
    fill_weights(call, tile, work.query_weights);
    statistics_tile(call, item / tiles, -1, tile, true, work, {shared + item * p.n * stride, stride});
  }
  if (join != nullptr) join->wait();
  for (int64_t item = begin; item < end; ++item) {
    const int64_t t = item / tiles;
    if (item == begin || item % tiles == 0) {
      for (int64_t i = 0; i < tiles; ++i) {  // in the order that one worker alone has
        const float* part = shared + (t * tiles + i) * p.n * stride;
        for (int64_t c = 0; c < p.n * stride; c += kLanes) accumulate(work.totals.first + c, load(part + c), i == 0);
      }
      weigh(call, t, work.totals, item % tiles == 0, work);
    }
    mixtures_tile(call, t, tile_at(p.d, item % tiles), work);
  }
  stream_fence();
}

// ---- Launch
template <class Act, class Partial>
Status run(const AttnResPartialsProblem& p, const AttnResPartialsArgs& args, int requested) {
  Call<Act, Partial> call{p, args};
  int64_t workers = resolve_threads(requested);
  if (bytes(p) < kBytesAlone) workers = 1;
  const int64_t tiles = tile_count(p.d);
  const bool share_tiles = p.t < workers && tiles > 1;
  workers = std::min(workers, share_tiles ? p.t * tiles : p.t);

  // What is written goes past the caches where it would not stay in them (attn_res/cpu/simd_rows.inl.hpp).
  const int64_t written = p.q * p.t * p.d * static_cast<int64_t>(sizeof(Partial));
  call.stream = written > cpu_facts().l2_bytes / 2 * workers &&
                aligned_for_streams<Partial>(args.mix.data, p.mix_token_stride) &&
                aligned_for_streams<Partial>(args.mix.data, p.mix_query_stride);

  const int64_t each = Workspace::floats(p);
  const int64_t shared = share_tiles ? p.t * tiles * p.n * Workspace::totals_stride(p) : 0;
  std::byte* scratch = nullptr;
  SILT_TRY(thread_scratch(static_cast<size_t>(workers * each + shared) * sizeof(float), &scratch));
  auto* memory = reinterpret_cast<float*>(scratch);
  Join join(static_cast<int>(workers));
  parallel_ranges(workers, static_cast<int>(workers), [&](int64_t begin, int64_t end) {
    const Workspace work(p, memory + begin * each);
    if (share_tiles) {
      const int64_t items = p.t * tiles;
      run_tiles(call, items * begin / workers, items * end / workers, work, memory + workers * each,
                end - begin == workers ? nullptr : &join);
    } else {
      run_tokens(call, p.t * begin / workers, p.t * end / workers, work);
    }
  });
  return {};
}

inline Status launch(const AttnResPartialsProblem& problem, const AttnResPartialsArgs& args, const Launch& launch) {
  if (problem.dtype == DType::f32) return run<float, float>(problem, args, launch.threads);
  return problem.partial == DType::f32 ? run<bf16, float>(problem, args, launch.threads)
                                       : run<bf16, bf16>(problem, args, launch.threads);
}

}  // namespace silt::SILT_SIMD_NAMESPACE::attn_res_partials_rows
SILT_SIMD_END;
