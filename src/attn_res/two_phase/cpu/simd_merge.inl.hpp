// What: attn_res_merge (contract.md) on one SIMD target.
//
// When: every checked problem; any strides, alignment to 2 bytes, any D (the last D % 32 columns go through padded
// copies), bf16 and fp32.
//
// Plan: tokens in contiguous ranges over the workers; with fewer tokens than workers the tiles of the rows are shared
// out instead, with two joins (run_tiles). A token is three passes over its columns: p with its statistics, the sum of
// squares of the mixture, the output. The mixture is formed twice, from p and the partial, rather than kept: both rows
// are 4*D bytes at bf16 and stay in L1, where D floats more would not.
//
// Data path: prefix and delta from memory, p to the prefix row (and the slot) at once, the partial's row asked for on
// the way; the next token's rows are asked for by the second and third pass. Output and slot are streamed past the
// caches where the call writes more than they hold.
//
// Bytes: 2*D*(1 + 2*delta + write + 1 + 1) + 8 per token at bf16 (cost.cpp).
//
// Rounding: fp32 throughout, one rounding at p and one at the output. Sums as in simd_partials.inl.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "attn_res/cpu/simd_stages.inl.hpp"
#include "attn_res/two_phase/cpu/cpu_simd_rows.hpp"
#include "core/join.hpp"
#include "core/scratch.hpp"
#include "core/status.hpp"
#include "core/workers.hpp"
#include "device/facts.hpp"

SILT_SIMD_BEGIN;
namespace silt::SILT_SIMD_NAMESPACE::attn_res_merge_rows {

using attn_res_rows::accumulate;
using attn_res_rows::aligned_for_streams;
using attn_res_rows::columns_of;
using attn_res_rows::dot_of;
using attn_res_rows::inverse_rms;
using attn_res_rows::target_of;
using attn_res_rows::Tile;
using attn_res_rows::tile_at;
using attn_res_rows::tile_count;
using attn_res_rows::written;

/// Below this many bytes the caller works alone: handing work to a spinning worker costs about a microsecond.
constexpr int64_t kBytesAlone = 32 << 10;

// ---- The call and its memory
template <class Act, class Partial>
struct Call {
  const AttnResMergeProblem& p;
  const AttnResMergeArgs& args;
  bool stream_output = false;
  bool stream_slot = false;

  [[nodiscard]] Act* prefix(int64_t t) const { return static_cast<Act*>(args.prefix.data) + t * p.prefix_stride; }
  [[nodiscard]] const Act* delta(int64_t t) const {
    return static_cast<const Act*>(args.delta.data) + t * p.delta_stride;
  }
  [[nodiscard]] const Partial* mix(int64_t t) const {
    return static_cast<const Partial*>(args.mix.data) + t * p.mix_stride;
  }
  [[nodiscard]] Act* slot(int64_t t) const { return static_cast<Act*>(args.slot.data) + t * p.slot_stride; }
  [[nodiscard]] Act* output(int64_t t) const { return static_cast<Act*>(args.output.data) + t * p.output_stride; }
  [[nodiscard]] const float* statistics(int64_t t) const {
    return static_cast<const float*>(args.statistics.data) + t * p.statistics_stride;
  }
};

/// Sums of a token, sixteen partial sums each.
constexpr int64_t kDot = 0;             ///< p * w
constexpr int64_t kSquares = kLanes;    ///< p * p
constexpr int64_t kMixed = 2 * kLanes;  ///< mixture * mixture
constexpr int64_t kTotals = 3 * kLanes;

/// A worker's part of the scratch, in floats.
struct Workspace {
  float* weights;  ///< norm_weight * qk_weight, in the order of a Pair, padded to whole Pairs
  float* totals;

  static int64_t row(int64_t d) { return (d + kPairColumns - 1) / kPairColumns * kPairColumns; }
  static int64_t floats(const AttnResMergeProblem& p) {
    return (row(p.d) + kTotals + 1023) / 1024 * 1024;  // whole pages: workers do not share lines
  }
  Workspace(const AttnResMergeProblem& p, float* at) : weights(at), totals(at + row(p.d)) {}
};

/// mixture = bank * mix + prefix * p.
struct Factors {
  float bank;
  float prefix;
};

// ---- The stages on one tile; addresses are of its first column
template <class Act, class Partial>
SILT_INLINE Pair load_partial(const Partial* from) {
  if constexpr (sizeof(Partial) == sizeof(Act)) {
    return load_pair(from);
  } else {
    return pair_of_columns<Act>(load(from), load(from + kLanes));
  }
}

template <class Act, class Partial>
struct PrefixColumns {
  Act* prefix;
  const Act* delta;  ///< null where absent
  Act* slot;         ///< null where nothing is written
  bool stream_slot;
  const float* weights;
  const Partial* mix_ahead;  ///< the partial's row of this token, or null
};

/// p = round(prefix + delta) to the prefix row and the slot, with its statistics.
template <class Act, class Partial>
void prefix_columns(const PrefixColumns<Act, Partial>& row, int64_t pairs, bool first, float* totals) {
  Lanes dot = zero();
  Lanes squares = zero();
  for (int64_t c = 0; c < pairs * kPairColumns; c += kPairColumns) {
    if (row.mix_ahead != nullptr) prefetch_l2(row.mix_ahead + c);
    Packed<Act> packed = load_packed(row.prefix + c);
    if (row.delta != nullptr) {
      const Pair a = unpack(packed);
      const Pair b = load_pair(row.delta + c);
      packed = pack_widened<Act>({add(a.first, b.first), add(a.second, b.second)});
      store_packed(row.prefix + c, packed);
    }
    if (row.slot != nullptr) {
      if (row.stream_slot) {
        stream_packed(row.slot + c, packed);
      } else {
        store_packed(row.slot + c, packed);
      }
    }
    const Pair p = unpack(packed);
    dot = add(dot, dot_of(p, load_packed(row.weights + c)));
    squares = add(squares, add_squares(packed, zero()));
  }
  accumulate(totals + kDot, dot, first);
  accumulate(totals + kSquares, squares, first);
}

template <class Act, class Partial>
SILT_INLINE Pair mixture(const Act* prefix, const Partial* mix, Lanes bank_factor, Lanes prefix_factor) {
  const Pair p = load_pair(prefix);
  const Pair m = load_partial<Act>(mix);
  return {multiply_add(p.first, prefix_factor, multiply(m.first, bank_factor)),
          multiply_add(p.second, prefix_factor, multiply(m.second, bank_factor))};
}

/// The sum of squares of the mixture. `ahead`: a row of the next token, or null.
template <class Act, class Partial>
void squares_columns(const Act* prefix, const Partial* mix, Factors factors, int64_t pairs, const Act* prefix_ahead,
                     bool first, float* totals) {
  const Lanes bank = broadcast(factors.bank);
  const Lanes own = broadcast(factors.prefix);
  Lanes squares = zero();
  for (int64_t c = 0; c < pairs * kPairColumns; c += kPairColumns) {
    if (prefix_ahead != nullptr) prefetch_l2(prefix_ahead + c);
    squares = add(squares, add_squares(mixture(prefix + c, mix + c, bank, own), zero()));
  }
  accumulate(totals + kMixed, squares, first);
}

/// output = round(mixture * scale * g), or round(mixture) where `g` is null.
template <class Act, class Partial>
void output_columns(const Act* prefix, const Partial* mix, Factors factors, float scale, const bf16* g, int64_t pairs,
                    const Act* delta_ahead, bool stream, Act* output) {
  const Lanes bank = broadcast(factors.bank);
  const Lanes own = broadcast(factors.prefix);
  const Lanes factor = broadcast(scale);
  for (int64_t c = 0; c < pairs * kPairColumns; c += kPairColumns) {
    if (delta_ahead != nullptr) prefetch_l2(delta_ahead + c);
    Pair v = mixture(prefix + c, mix + c, bank, own);
    if (g != nullptr) {
      const Pair weight = load_weights<Act>(g + c);
      v.first = multiply(multiply(v.first, factor), weight.first);
      v.second = multiply(multiply(v.second, factor), weight.second);
    }
    const Packed<Act> packed = sizeof(Partial) == sizeof(Act) ? pack_widened<Act>(v) : pack<Act>(v);
    if (stream) {
      stream_packed(output + c, packed);
    } else {
      store_packed(output + c, packed);
    }
  }
}

// ---- The stages of one token on one tile
template <class Act, class Partial>
void fill_weights(const Call<Act, Partial>& call, Tile tile, float* weights) {
  alignas(64) bf16 pads[2][kPairColumns];
  const bf16* norm = columns_of(tile, static_cast<const bf16*>(call.args.norm_weight.data), pads[0]);
  const bf16* qk = columns_of(tile, static_cast<const bf16*>(call.args.qk_weight.data), pads[1]);
  for (int64_t c = 0; c < tile.pairs() * kPairColumns; c += kPairColumns) {
    const Pair a = load_weights<Act>(norm + c);
    const Pair b = load_weights<Act>(qk + c);
    store_packed(weights + tile.begin + c, {multiply(a.first, b.first), multiply(a.second, b.second)});
  }
}

template <class Act, class Partial>
void prefix_tile(const Call<Act, Partial>& call, int64_t t, Tile tile, bool first, const float* weights,
                 float* totals) {
  const AttnResMergeProblem& p = call.p;
  alignas(64) Act pads[3][kPairColumns];
  PrefixColumns<Act, Partial> row{};
  row.prefix = call.prefix(t) + tile.begin;
  if (tile.padded()) {
    columns_of<Act>(tile, call.prefix(t), pads[0]);
    row.prefix = pads[0];
  }
  if (p.delta) row.delta = columns_of(tile, call.delta(t), pads[1]);
  if (p.write) row.slot = target_of(tile, call.slot(t), pads[2]);
  row.stream_slot = call.stream_slot && !tile.padded();
  row.weights = weights + tile.begin;
  row.mix_ahead = call.mix(t) + tile.begin;
  prefix_columns(row, tile.pairs(), first, totals);
  if (p.delta) written(tile, call.prefix(t), pads[0]);
  if (p.write) written(tile, call.slot(t), pads[2]);
}

/// `ahead`: the token whose prefix is asked for, or negative.
template <class Act, class Partial>
void squares_tile(const Call<Act, Partial>& call, int64_t t, int64_t ahead, Tile tile, Factors factors, bool first,
                  float* totals) {
  alignas(64) Act prefix_pad[kPairColumns];
  alignas(64) Partial mix_pad[kPairColumns];
  squares_columns<Act>(columns_of<Act>(tile, call.prefix(t), prefix_pad), columns_of(tile, call.mix(t), mix_pad),
                       factors, tile.pairs(), ahead < 0 ? nullptr : call.prefix(ahead) + tile.begin, first, totals);
}

/// `ahead`: the token whose delta is asked for, or negative.
template <class Act, class Partial>
void output_tile(const Call<Act, Partial>& call, int64_t t, int64_t ahead, Tile tile, Factors factors, float scale) {
  const AttnResMergeProblem& p = call.p;
  alignas(64) Act pads[2][kPairColumns];
  alignas(64) Partial mix_pad[kPairColumns];
  alignas(64) bf16 weight_pad[kPairColumns];
  const auto* weights = static_cast<const bf16*>(call.args.output_norm_weight.data);
  const bf16* g = p.norm ? columns_of(tile, weights, weight_pad) : nullptr;
  const Act* prefix = columns_of<Act>(tile, call.prefix(t), pads[0]);
  output_columns<Act>(prefix, columns_of(tile, call.mix(t), mix_pad), factors, scale, g, tile.pairs(),
                      p.delta && ahead >= 0 ? call.delta(ahead) + tile.begin : nullptr,
                      call.stream_output && !tile.padded(), target_of(tile, call.output(t), pads[1]));
  written(tile, call.output(t), pads[1]);
}

/// A NaN of statistics with a clear lower half, as pack_widened asks for.
inline float clean(float x) { return std::isnan(x) ? std::numeric_limits<float>::quiet_NaN() : x; }

/// The softmax over the partial and p, from the totals of p.
template <class Act, class Partial>
Factors factors_of(const Call<Act, Partial>& call, int64_t t, const float* totals) {
  float lanes[kLanes] = {};
  const float logit = sum(load(totals + kDot)) * inverse_rms(totals + kSquares, call.p.d, call.args.eps);
  const float largest = std::max(call.statistics(t)[0], logit);  // either's NaN leaves by its exponential
  lanes[0] = call.statistics(t)[0] - largest;
  lanes[1] = logit - largest;
  store(lanes, exp(load(lanes)));
  const float denominator = lanes[0] * call.statistics(t)[1] + lanes[1];
  return {clean(lanes[0] / denominator), clean(lanes[1] / denominator)};
}

// ---- Many tokens, and fewer than workers
template <class Act, class Partial>
void run_tokens(const Call<Act, Partial>& call, int64_t begin, int64_t end, const Workspace& work) {
  const AttnResMergeProblem& p = call.p;
  const int64_t tiles = tile_count(p.d);
  for (int64_t t = begin; t < end; ++t) {
    const int64_t ahead = t + 1 < end ? t + 1 : -1;
    for (int64_t i = 0; i < tiles; ++i) {
      const Tile tile = tile_at(p.d, i);
      if (t == begin) fill_weights(call, tile, work.weights);
      prefix_tile(call, t, tile, i == 0, work.weights, work.totals);
    }
    const Factors factors = factors_of(call, t, work.totals);
    for (int64_t i = 0; p.norm && i < tiles; ++i) {
      squares_tile(call, t, ahead, tile_at(p.d, i), factors, i == 0, work.totals);
    }
    const float scale = p.norm ? inverse_rms(work.totals + kMixed, p.d, call.args.output_norm_eps) : 1;
    for (int64_t i = 0; i < tiles; ++i) output_tile(call, t, ahead, tile_at(p.d, i), factors, scale);
  }
  stream_fence();
}

/// Sum `which` over the tiles of a token, in the order that one worker alone has.
inline void add_tiles(const float* parts, int64_t tiles, int64_t which, float* totals) {
  for (int64_t i = 0; i < tiles; ++i) accumulate(totals + which, load(parts + i * kTotals + which), i == 0);
}

template <class Act, class Partial>
Factors factors_at(const Call<Act, Partial>& call, int64_t t, const float* shared, const Workspace& work) {
  const int64_t tiles = tile_count(call.p.d);
  for (const int64_t which : {kDot, kSquares}) add_tiles(shared + t * tiles * kTotals, tiles, which, work.totals);
  return factors_of(call, t, work.totals);
}

/// Tiles [begin, end) of all tokens' tiles; `shared` has the totals of every one of them. `join` is null where one
/// participant does everything.
template <class Act, class Partial>
void run_tiles(const Call<Act, Partial>& call, int64_t begin, int64_t end, const Workspace& work, float* shared,
               Join* join) {
  const AttnResMergeProblem& p = call.p;
  const int64_t tiles = tile_count(p.d);
  for (int64_t item = begin; item < end; ++item) {
    const Tile tile = tile_at(p.d, item % tiles);
    fill_weights(call, tile, work.weights);
    prefix_tile(call, item / tiles, tile, true, work.weights, shared + item * kTotals);
  }
  if (join != nullptr) join->wait();
  Factors factors{};
  for (int64_t item = begin; p.norm && item < end; ++item) {
    if (item == begin || item % tiles == 0) factors = factors_at(call, item / tiles, shared, work);
    squares_tile(call, item / tiles, -1, tile_at(p.d, item % tiles), factors, true, shared + item * kTotals);
  }
  if (join != nullptr && p.norm) join->wait();
  float scale = 1;
  for (int64_t item = begin; item < end; ++item) {
    if (item == begin || item % tiles == 0) factors = factors_at(call, item / tiles, shared, work);
    if (p.norm && (item == begin || item % tiles == 0)) {
      add_tiles(shared + item / tiles * tiles * kTotals, tiles, kMixed, work.totals);
      scale = inverse_rms(work.totals + kMixed, p.d, call.args.output_norm_eps);
    }
    output_tile(call, item / tiles, -1, tile_at(p.d, item % tiles), factors, scale);
  }
  stream_fence();
}

// ---- Launch
template <class Act, class Partial>
Status run(const AttnResMergeProblem& p, const AttnResMergeArgs& args, int requested) {
  Call<Act, Partial> call{p, args};
  int64_t workers = resolve_threads(requested);
  if (bytes(p) < kBytesAlone) workers = 1;
  const int64_t items = p.t * tile_count(p.d);
  const bool share_tiles = p.t < workers && items > p.t;
  workers = std::min(workers, share_tiles ? items : p.t);

  // What is written goes past the caches where it would not stay in them (attn_res/cpu/simd_rows.inl.hpp).
  const bool large = p.t * p.d * static_cast<int64_t>(sizeof(Act)) > cpu_facts().l2_bytes / 2 * workers;
  call.stream_output = large && aligned_for_streams<Act>(args.output.data, p.output_stride);
  call.stream_slot = p.write && large && aligned_for_streams<Act>(args.slot.data, p.slot_stride);

  const int64_t each = Workspace::floats(p);
  const int64_t shared = share_tiles ? items * kTotals : 0;
  std::byte* scratch = nullptr;
  SILT_TRY(thread_scratch(static_cast<size_t>(workers * each + shared) * sizeof(float), &scratch));
  auto* memory = reinterpret_cast<float*>(scratch);
  Join join(static_cast<int>(workers));
  parallel_ranges(workers, static_cast<int>(workers), [&](int64_t begin, int64_t end) {
    const Workspace work(p, memory + begin * each);
    if (share_tiles) {
      run_tiles(call, items * begin / workers, items * end / workers, work, memory + workers * each,
                end - begin == workers ? nullptr : &join);
    } else {
      run_tokens(call, p.t * begin / workers, p.t * end / workers, work);
    }
  });
  return {};
}

inline Status launch(const AttnResMergeProblem& problem, const AttnResMergeArgs& args, const Launch& launch) {
  if (problem.dtype == DType::f32) return run<float, float>(problem, args, launch.threads);
  return problem.partial == DType::f32 ? run<bf16, float>(problem, args, launch.threads)
                                       : run<bf16, bf16>(problem, args, launch.threads);
}

}  // namespace silt::SILT_SIMD_NAMESPACE::attn_res_merge_rows
SILT_SIMD_END;
