// What: attn_res (contract.md) on one SIMD target.
//
// When: every checked problem; any strides, alignment to 2 bytes, any D (the last D % 32 columns go through padded
// copies), any number of blocks, bf16 and fp32.
//
// Plan: tokens in contiguous ranges over the workers; with fewer tokens than workers the tiles of the rows are shared
// out instead (run_tiles). A token has three stages: statistics of its sources, their mixture, the output norm. Each
// needs a sum over all columns from the stage before, so a worker keeps three tokens in flight: it sweeps the tiles
// with the output of token t - 2 and the mixture of t - 1, which find their rows in L2, and then with the statistics of
// t, which come from memory.
//
// Data path: bank rows from memory to L2 by prefetches, spread over the loops of the token before: half of them by its
// mixture, one by an output, the others by the statistics, which also make p; from L2 for the statistics (all rows side
// by side, one load of the weights for all of them) and once more for the mixture. p goes to the prefix row (and its
// slot) at once. The mixture stays in fp32 in the worker's scratch until its norm is known; tile by tile the output
// leaves it and the next mixture takes its place. Output and slot are streamed past the caches where the call writes
// more than they hold.
//
// Bytes: 2*D*(nb + 1 + 2*delta + write + 1) per token at bf16 (cost.cpp).
//
// Rounding: fp32 throughout, one rounding at p and one at the output. A statistic is sixteen partial sums per tile,
// added tile after tile and then by halves: the bits depend on the row alone, not on the thread count, the split or the
// target.
//
// Tried, with numbers in docs/ladder/attn_res_cpu.md: one row at a time, online softmax, all three stages tile by tile,
// stages of one token only, prefetching everything from the mixture, every second line or nothing, pulling a token into
// L2 before its statistics.
#pragma once

#include "attn_res/cpu/simd_stages.inl.hpp"
#include "core/join.hpp"
#include "core/scratch.hpp"
#include "core/status.hpp"
#include "core/workers.hpp"
#include "device/facts.hpp"

SILT_SIMD_BEGIN;
namespace silt::SILT_SIMD_NAMESPACE::attn_res_rows {

/// How many tiles before its statistics a tile is asked for.
constexpr int64_t kTilesAhead = 4;
/// Below this many bytes the caller works alone: handing work to a spinning worker costs about a microsecond.
constexpr int64_t kBytesAlone = 32 << 10;

// ---- The call and its memory
template <class Act>
struct Call {
  const AttnResProblem& p;
  const AttnResArgs& args;
  bool stream_output = false;
  bool stream_slot = false;

  [[nodiscard]] Act* prefix(int64_t t) const { return static_cast<Act*>(args.prefix.data) + t * p.prefix_stride; }
  [[nodiscard]] const Act* delta(int64_t t) const {
    return p.delta ? static_cast<const Act*>(args.delta.data) + t * p.delta_stride : nullptr;
  }
  [[nodiscard]] Act* slot(int64_t t, int64_t i) const {
    return static_cast<Act*>(args.blocks.data) + t * p.block_token_stride + i * p.block_slot_stride;
  }
  /// The bank blocks and then p.
  [[nodiscard]] const Act* source(int64_t t, int64_t i) const { return i == p.n ? prefix(t) : slot(t, i); }
  [[nodiscard]] Act* output(int64_t t) const { return static_cast<Act*>(args.output.data) + t * p.output_stride; }
  [[nodiscard]] const bf16* weight(const ConstTensorView& view) const { return static_cast<const bf16*>(view.data); }
};

/// A worker's part of the scratch, in floats.
struct Workspace {
  float* weights;  ///< norm_weight * qk_weight, in the order of a Pair, padded to whole Pairs
  float* mixture;  ///< one row, the same
  float* totals;   ///< dot and squares of every source, sixteen partial sums each
  float* softmax;  ///< one weight per source, padded to whole Lanes
  float* squares;  ///< of the mixture, sixteen partial sums

  static int64_t row(int64_t d) { return (d + kPairColumns - 1) / kPairColumns * kPairColumns; }
  static int64_t totals_of(int64_t n) { return 2 * kLanes * (n + 1); }
  static int64_t floats(const AttnResProblem& p) {
    const int64_t used = 2 * row(p.d) + totals_of(p.n) + (p.n / kLanes + 1) * kLanes + kLanes;
    return (used + 1023) / 1024 * 1024;  // whole pages: workers do not share lines
  }
  Workspace(const AttnResProblem& p, float* at)
      : weights(at),
        mixture(weights + row(p.d)),
        totals(mixture + row(p.d)),
        softmax(totals + totals_of(p.n)),
        squares(softmax + (p.n / kLanes + 1) * kLanes) {}
};

/// Rows to ask for while a tile is worked on; null where there are none.
template <class Act>
struct Ahead {
  const Act* prefix = nullptr;
  const Act* delta = nullptr;
  const Act* bank = nullptr;

  Ahead() = default;
  Ahead(const Call<Act>& call, int64_t t, Tile tile)
      : prefix(call.prefix(t) + tile.begin),
        delta(call.p.delta ? call.delta(t) + tile.begin : nullptr),
        bank(call.p.n > 0 ? call.slot(t, 0) + tile.begin : nullptr) {}
};

// ---- The stages of one token on one tile
template <class Act>
void fill_weights(const Call<Act>& call, Tile tile, float* weights) {
  alignas(64) bf16 pads[2][kPairColumns];
  const bf16* norm = columns_of(tile, call.weight(call.args.norm_weight), pads[0]);
  const bf16* qk = columns_of(tile, call.weight(call.args.qk_weight), pads[1]);
  for (int64_t c = 0; c < tile.pairs() * kPairColumns; c += kPairColumns) {
    const Pair a = load_weights<Act>(norm + c);
    const Pair b = load_weights<Act>(qk + c);
    store_packed(weights + tile.begin + c, {multiply(a.first, b.first), multiply(a.second, b.second)});
  }
}

/// p of a tile: where prefix, delta and slot are, in padded copies at the end of a row.
template <class Act>
class PrefixTile {
 public:
  PrefixTile(const Call<Act>& call, int64_t t, Tile tile, const Ahead<Act>& ahead)
      : call_(call), t_(t), tile_(tile), columns_{} {
    const AttnResProblem& p = call.p;
    columns_.prefix = call.prefix(t) + tile.begin;
    if (tile.padded()) {
      columns_of<Act>(tile, call.prefix(t), pads_[0]);
      columns_.prefix = pads_[0];
    }
    if (p.delta) columns_.delta = columns_of(tile, call.delta(t), pads_[1]);
    if (p.write >= 0) columns_.slot = target_of(tile, call.slot(t, p.write), pads_[2]);
    columns_.stream_slot = call.stream_slot && !tile.padded();
    columns_.prefix_ahead = ahead.prefix;
    columns_.delta_ahead = ahead.delta;
  }

  [[nodiscard]] const PrefixColumns<Act>& columns() const { return columns_; }
  void written() const {
    if (call_.p.delta) attn_res_rows::written(tile_, call_.prefix(t_), pads_[0]);
    if (call_.p.write >= 0) attn_res_rows::written(tile_, call_.slot(t_, call_.p.write), pads_[2]);
  }

 private:
  const Call<Act>& call_;
  int64_t t_;
  Tile tile_;
  PrefixColumns<Act> columns_;
  alignas(64) Act pads_[3][kPairColumns];
};

/// p to the prefix row and the slot, and the sum of its squares to `total`: all that the token's statistics are without
/// blocks.
template <class Act>
void prefix_tile(const Call<Act>& call, int64_t t, Tile tile, const Ahead<Act>& ahead, bool first, float* total) {
  const PrefixTile<Act> prefix(call, t, tile, ahead);
  prefix_columns(prefix.columns(), tile.pairs(), first, total);
  prefix.written();
}

/// p to the prefix row and the slot; statistics of all sources of the token, p last.
template <class Act>
void statistics_tile(const Call<Act>& call, int64_t t, Tile tile, const Ahead<Act>& ahead, const float* weights,
                     bool first, float* totals) {
  static constexpr auto kLong = statistics_table<Act, false>(std::make_integer_sequence<int, kGroup>());
  static constexpr auto kShort =
      statistics_table<Act, true>(std::make_integer_sequence<int, std::min(kGroup, kFewBlocks + 1)>());
  const int64_t n = call.p.n;
  const bool few = n <= kFewBlocks;
  alignas(64) Act pads[kGroup][kPairColumns];
  const Act* rows[kGroup];
  Asked asked;
  if (ahead.bank != nullptr && !tile.padded()) {
    asked.first = asked_by_mixture(n) + asked_by_output(n);
    asked.distance = ahead.bank - (call.slot(t, 0) + tile.begin);
  }
  const PrefixTile<Act> prefix(call, t, tile, ahead);
  int64_t base = 0;
  for (; base + kGroup <= n; base += kGroup, asked.first -= kGroup) {
    for (int64_t r = 0; r < kGroup; ++r) rows[r] = columns_of(tile, call.slot(t, base + r), pads[r]);
    const auto run = few ? statistics_columns<Act, kGroup, true, false> : statistics_columns<Act, kGroup, false, false>;
    run(rows, nullptr, asked, weights + tile.begin, tile.pairs(), first, totals + 2 * kLanes * base);
  }
  const int64_t blocks = n - base;
  for (int64_t r = 0; r < blocks; ++r) rows[r] = columns_of(tile, call.slot(t, base + r), pads[r]);
  const auto run = few ? kShort[static_cast<size_t>(blocks)] : kLong[static_cast<size_t>(blocks)];
  run(rows, &prefix.columns(), asked, weights + tile.begin, tile.pairs(), first, totals + 2 * kLanes * base);
  prefix.written();
}

template <class Act>
void mixture_tile(const Call<Act>& call, int64_t t, Tile tile, const float* softmax, const Ahead<Act>& ahead,
                  bool first, float* mixture, float* squares) {
  static constexpr auto kBegin = mixture_table<Act, true>(std::make_integer_sequence<int, kMixed>());
  static constexpr auto kContinue = mixture_table<Act, false>(std::make_integer_sequence<int, kMixed>());
  const AttnResProblem& p = call.p;
  alignas(64) Act pads[kMixed][kPairColumns];
  const Act* rows[kMixed];
  alignas(64) float partial[kLanes];  // squares before the last source was added: not wanted
  for (int64_t base = 0; base <= p.n; base += kMixed) {
    const int64_t count = std::min<int64_t>(kMixed, p.n + 1 - base);
    for (int64_t r = 0; r < count; ++r) rows[r] = columns_of(tile, call.source(t, base + r), pads[r]);
    const bool last = base + count > p.n;
    const auto& table = base == 0 ? kBegin : kContinue;
    table[static_cast<size_t>(count - 1)](rows, softmax + base, tile.pairs(), base == 0 ? ahead.bank : nullptr,
                                          p.block_slot_stride, first || !last, mixture + tile.begin,
                                          last ? squares : partial);
  }
}

/// Without blocks the mixture is the prefix itself.
template <class Act>
void output_tile(const Call<Act>& call, int64_t t, Tile tile, const Ahead<Act>& ahead, const float* mixture,
                 float scale) {
  const AttnResProblem& p = call.p;
  alignas(64) bf16 weight_pad[kPairColumns];
  alignas(64) Act pads[2][kPairColumns];
  const bf16* g = p.norm ? columns_of(tile, call.weight(call.args.output_norm_weight), weight_pad) : nullptr;
  Act* output = target_of(tile, call.output(t), pads[0]);
  const bool stream = call.stream_output && !tile.padded();
  if (p.n == 0) {
    const Act* prefix = columns_of<Act>(tile, call.prefix(t), pads[1]);
    output_columns<Act, false>(prefix, nullptr, scale, g, tile.pairs(), stream, output);
  } else {
    const bool ask = ahead.bank != nullptr && asked_by_output(p.n) > 0;
    const Act* row = ask ? ahead.bank + asked_by_mixture(p.n) * p.block_slot_stride : nullptr;
    const auto run = ask ? output_columns<Act, true, float> : output_columns<Act, false, float>;
    run(mixture + tile.begin, row, scale, g, tile.pairs(), stream, output);
  }
  written(tile, call.output(t), pads[0]);
}

// ---- Many tokens: three in flight
/// What is kTilesAhead tiles behind tile `i` of token `t`; nothing from token `end` on.
template <class Act>
Ahead<Act> ahead_of(const Call<Act>& call, int64_t t, int64_t i, int64_t end) {
  const int64_t tiles = tile_count(call.p.d);
  const int64_t later = t + (i + kTilesAhead) / tiles;
  return later < end ? Ahead<Act>(call, later, tile_at(call.p.d, (i + kTilesAhead) % tiles)) : Ahead<Act>();
}

template <class Act>
void run_tokens(const Call<Act>& call, int64_t begin, int64_t end, const Workspace& work) {
  const AttnResProblem& p = call.p;
  const int64_t tiles = tile_count(p.d);
  const int64_t lag = p.n > 0 ? 2 : 1;  // the output's distance behind the statistics
  float scale = 1;
  for (int64_t t = begin; t < end + lag; ++t) {
    const bool statistics = t < end;
    const bool mix = p.n > 0 && t > begin && t <= end;
    for (int64_t i = 0; i < tiles; ++i) {
      const Tile tile = tile_at(p.d, i);
      const Ahead<Act> ahead = ahead_of(call, t, i, end);
      if (t >= begin + lag) output_tile(call, t - lag, tile, ahead, work.mixture, scale);
      if (mix) mixture_tile(call, t - 1, tile, work.softmax, ahead, i == 0, work.mixture, work.squares);
      if (statistics && p.n == 0) prefix_tile(call, t, tile, ahead, i == 0, work.squares);
    }
    for (int64_t i = 0; statistics && p.n > 0 && i < tiles; ++i) {
      const Tile tile = tile_at(p.d, i);
      if (t == begin) fill_weights(call, tile, work.weights);
      statistics_tile(call, t, tile, ahead_of(call, t, i, end), work.weights, i == 0, work.totals);
    }
    if (p.norm && (mix || p.n == 0)) scale = inverse_rms(work.squares, p.d, call.args.output_norm_eps);
    if (p.n > 0 && statistics) softmax_weights(work.totals, p.n + 1, p.d, call.args.eps, work.softmax);
  }
  stream_fence();
}

// ---- Fewer tokens than workers: tiles shared out, with a join after the statistics and one after the mixture
struct Shared {
  float* totals;   ///< per tile
  float* squares;  ///< per tile
  float* mixture;  ///< per token
  Join* join;      ///< null where one participant does everything

  static int64_t floats(const AttnResProblem& p) {
    return p.t * (Workspace::row(p.d) + tile_count(p.d) * (Workspace::totals_of(p.n) + kLanes));
  }
  Shared(const AttnResProblem& p, float* at, Join* meeting)
      : totals(at),
        squares(totals + p.t * tile_count(p.d) * Workspace::totals_of(p.n)),
        mixture(squares + p.t * tile_count(p.d) * kLanes),
        join(meeting) {}
};

/// total = sum over the tiles of a token, in the order that one worker alone has.
inline void add_tiles(const float* parts, int64_t tiles, int64_t floats, float* total) {
  for (int64_t i = 0; i < tiles; ++i) {
    for (int64_t c = 0; c < floats; c += kLanes) accumulate(total + c, load(parts + i * floats + c), i == 0);
  }
}

/// Tiles [begin, end) of all tokens' tiles.
template <class Act>
void run_tiles(const Call<Act>& call, int64_t begin, int64_t end, const Workspace& work, const Shared& shared) {
  const AttnResProblem& p = call.p;
  const int64_t tiles = tile_count(p.d);
  const int64_t totals = Workspace::totals_of(p.n);
  for (int64_t item = begin; item < end; ++item) {
    const Tile tile = tile_at(p.d, item % tiles);
    if (p.n == 0) {
      prefix_tile(call, item / tiles, tile, {}, true, shared.squares + item * kLanes);
      continue;
    }
    fill_weights(call, tile, work.weights);
    statistics_tile(call, item / tiles, tile, {}, work.weights, true, shared.totals + item * totals);
  }
  if (shared.join != nullptr) shared.join->wait();
  for (int64_t item = begin; p.n > 0 && item < end; ++item) {
    const int64_t t = item / tiles;
    if (item == begin || item % tiles == 0) {
      add_tiles(shared.totals + t * tiles * totals, tiles, totals, work.totals);
      softmax_weights(work.totals, p.n + 1, p.d, call.args.eps, work.softmax);
    }
    mixture_tile(call, t, tile_at(p.d, item % tiles), work.softmax, {}, true, shared.mixture + t * Workspace::row(p.d),
                 shared.squares + item * kLanes);
  }
  if (shared.join != nullptr && p.n > 0) shared.join->wait();
  float scale = 1;
  for (int64_t item = begin; item < end; ++item) {
    const int64_t t = item / tiles;
    if (p.norm && (item == begin || item % tiles == 0)) {
      add_tiles(shared.squares + t * tiles * kLanes, tiles, kLanes, work.squares);
      scale = inverse_rms(work.squares, p.d, call.args.output_norm_eps);
    }
    output_tile(call, t, tile_at(p.d, item % tiles), {}, shared.mixture + t * Workspace::row(p.d), scale);
  }
  stream_fence();
}

// ---- Launch
template <class Act>
Status run(const AttnResProblem& p, const AttnResArgs& args, int requested) {
  Call<Act> call{p, args};
  int64_t workers = resolve_threads(requested);
  if (bytes(p) < kBytesAlone) workers = 1;
  const int64_t items = p.t * tile_count(p.d);
  const bool share_tiles = p.t < workers && items > p.t;
  workers = std::min(workers, share_tiles ? items : p.t);

  // What is written goes past the caches where it would not stay in them: the reader of a large output finds it in
  // memory either way, and the line need not be fetched before it is overwritten.
  const bool large = p.t * p.d * static_cast<int64_t>(sizeof(Act)) > cpu_facts().l2_bytes / 2 * workers;
  call.stream_output = large && aligned_for_streams<Act>(args.output.data, p.output_stride);
  if (p.write >= 0) {
    call.stream_slot = large && p.block_token_stride * static_cast<int64_t>(sizeof(Act)) % 64 == 0 &&
                       aligned_for_streams<Act>(call.slot(0, p.write), p.block_slot_stride);
  }

  const int64_t each = Workspace::floats(p);
  const int64_t floats = workers * each + (share_tiles ? Shared::floats(p) : 0);
  std::byte* scratch = nullptr;
  SILT_TRY(thread_scratch(static_cast<size_t>(floats) * sizeof(float), &scratch));
  auto* memory = reinterpret_cast<float*>(scratch);
  Join join(static_cast<int>(workers));
  parallel_ranges(workers, static_cast<int>(workers), [&](int64_t begin, int64_t end) {
    const Workspace work(p, memory + begin * each);
    if (share_tiles) {
      const Shared shared(p, memory + workers * each, end - begin == workers ? nullptr : &join);
      run_tiles(call, items * begin / workers, items * end / workers, work, shared);
    } else {
      run_tokens(call, p.t * begin / workers, p.t * end / workers, work);
    }
  });
  return {};
}

inline Status launch(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch) {
  return problem.dtype == DType::bf16 ? run<bf16>(problem, args, launch.threads)
                                      : run<float>(problem, args, launch.threads);
}

}  // namespace silt::SILT_SIMD_NAMESPACE::attn_res_rows
SILT_SIMD_END;
