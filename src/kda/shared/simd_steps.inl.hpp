// The steps of a KDA head on one SIMD target: what the SIMD kernels of the family are made of. The counterpart of
// cpu_steps.hpp, with the same rules: sixteen partial sums added by one fixed tree, so that a result depends on its
// inputs alone, on every target.
//
// A row of the state is 128 values. In fp32 it is eight Lanes; in bf16 it is four Pairs (even and odd columns apart,
// see simd/lanes.inl.hpp), so the vectors that meet it are brought into that order once per head.
#pragma once

#include <cmath>

#include "silt/rms_norm_gated.hpp"

#include "kda/shared/reference.hpp"
#include "simd/math.inl.hpp"

SILT_SIMD_BEGIN;
namespace silt::SILT_SIMD_NAMESPACE::kda_steps {

using kda::kDim;
using kda::kHistory;
using kda::kParts;

constexpr float kScale = 0x1.6a09e6p-4F;  // 128^-0.5

struct alignas(64) Vector {
  float values[kDim];
};

/// What the delta rule reads. q and k are normalised; both times the decay give prediction and readout in one pass over
/// the state: o = S.(decay*q) + e*(k.q).
struct Step {
  Vector q;
  Vector k;
  Vector v;
  Vector decay;
  Vector decayed_q;
  Vector decayed_k;
  float beta;
  float kq;
};

SILT_INLINE float scalar(Lanes a) { return hn::GetLane(a.part[0]); }

/// A head's values as activations: one rounding.
template <class Act>
SILT_INLINE void store_head(const Vector& x, Act* to) {
  for (int64_t c = 0; c < kDim; c += kPairColumns) {
    store_pair(to + c, pair_of_columns<Act>(load(x.values + c), load(x.values + c + kLanes)));
  }
}

SILT_INLINE float dot(const Vector& a, const Vector& b) {
  Lanes total = zero();
  for (int64_t c = 0; c < kDim; c += kLanes) total = multiply_add(load(a.values + c), load(b.values + c), total);
  return sum(total);
}

/// bias + sum of weight * input for channels c to c + 15; taps are oldest first, one channel after the other.
template <class Act>
SILT_INLINE Lanes weigh_taps(const float* weight, int64_t tap_stride, const float* bias, const Act* const* taps,
                             int64_t c) {
  Lanes y = bias == nullptr ? zero() : load(bias + c);
  for (int64_t tap = 0; tap < kda::kTaps; ++tap)
    y = multiply_add(load(weight + tap * tap_stride + c), load(taps[tap] + c), y);
  return y;
}

/// Columns that go through a function together.
constexpr int64_t kColumnsTogether = kTogether * kLanes;

/// One part of a head: SiLU of its weighted taps.
template <class Act>
SILT_INLINE void convolve(const kda::HeadWeights& weights, int64_t part, const Act* const* taps, Vector& z) {
  const float* weight = weights.conv_weight + part * kda::kTaps * weights.tap_stride;
  const float* bias = weights.conv_bias == nullptr ? nullptr : weights.conv_bias + part * weights.tap_stride;
  for (int64_t c = 0; c < kDim; c += kColumnsTogether) {
    Several y;
    SILT_EACH_TOGETHER put(y, r, weigh_taps(weight, weights.tap_stride, bias, taps, c + r * kLanes));
    y = silu(y);
    SILT_EACH_TOGETHER store(z.values + c + r * kLanes, take(y, r));
  }
}

/// One part's convolution of one token; its history moves on by a step.
template <class Act>
SILT_INLINE void convolve_and_shift(const kda::HeadWeights& weights, const kda::HistoryView<Act>& history, int64_t part,
                                    const Act* x, Vector& z) {
  Act* first = &history.at(part, 0, 0);
  if (history.layout == kda::History::sd) {
    Act* rows[kHistory] = {first, first + history.channels, first + 2 * history.channels};
    const Act* taps[kda::kTaps] = {rows[0], rows[1], rows[2], x};
    convolve(weights, part, taps, z);
    for (int64_t step = 0; step < kHistory; ++step) __builtin_memcpy(rows[step], taps[step + 1], kDim * sizeof(Act));
    return;
  }
  // The steps of a channel are neighbours: taken apart, and put back one step on.
  alignas(64) Act gathered[kHistory][kDim];
  for (int64_t c = 0; c < kDim; ++c) {
    for (int64_t step = 0; step < kHistory; ++step) gathered[step][c] = first[c * kHistory + step];
  }
  const Act* taps[kda::kTaps] = {gathered[0], gathered[1], gathered[2], x};
  convolve(weights, part, taps, z);
  for (int64_t c = 0; c < kDim; ++c) {
    for (int64_t step = 0; step < kHistory; ++step) first[c * kHistory + step] = taps[step + 1][c];
  }
}

SILT_INLINE void scale_by(Vector& x, float factor) {
  const Lanes f = broadcast(factor);
  for (int64_t c = 0; c < kDim; c += kLanes) store(x.values + c, multiply(load(x.values + c), f));
}

/// x / ||x||, times `scale`.
SILT_INLINE void normalise(Vector& x, float scale) {
  scale_by(x, scale * (1.0F / std::sqrt(dot(x, x) + kda::kL2Epsilon)));
}

/// Decays from raw gate plus bias; `a` is exp(A_log) in every lane.
template <bool kSafe>
SILT_INLINE Several decays(const kda::HeadWeights& weights, Several a, Several g) {
  if constexpr (kSafe) {
    return exp(multiply(broadcast<kSeveral>(weights.lower_bound), sigmoid(multiply(a, g))));
  } else {
    return exp(negate(multiply(a, softplus(g))));
  }
}

/// exp(A_log) in every lane.
SILT_INLINE Several gate_slope(const kda::HeadWeights& weights) {
  const Lanes a = exp(broadcast(weights.A_log));
  Several all;
  SILT_EACH_TOGETHER put(all, r, a);
  return all;
}

template <class Act>
SILT_INLINE void decay_factors(const kda::HeadWeights& weights, const Act* raw_gate, Vector& decay) {
  const Several a = gate_slope(weights);
  for (int64_t c = 0; c < kDim; c += kColumnsTogether) {
    Several g;
    SILT_EACH_TOGETHER {
      const int64_t at = c + r * kLanes;
      put(g, r, add(load(raw_gate + at), load(weights.dt_bias + at)));
    }
    g = weights.gate == kda::Gate::safe ? decays<true>(weights, a, g) : decays<false>(weights, a, g);
    SILT_EACH_TOGETHER store(decay.values + c + r * kLanes, take(g, r));
  }
}

template <class Act>
SILT_INLINE float beta_of(const Act* raw_beta) {
  return scalar(sigmoid(broadcast(to_float(*raw_beta))));
}

/// Brings a vector into the order that rows of `Stored` are loaded in.
template <class Stored>
SILT_INLINE void arrange(Vector& x) {
  if constexpr (sizeof(Stored) == 2) {
    for (int64_t c = 0; c < kDim; c += kPairColumns) {
      const Pair pair = pair_of_columns<Stored>(load(x.values + c), load(x.values + c + kLanes));
      store(x.values + c, pair.first);
      store(x.values + c + kLanes, pair.second);
    }
  }
}

/// Normalises q and k, folds the decay into them and arranges everything for rows of `Stored`.
template <class Stored>
SILT_INLINE void fold(Step& step) {
  normalise(step.q, kScale);
  normalise(step.k, 1.0F);
  step.kq = dot(step.k, step.q);
  arrange<Stored>(step.q);
  arrange<Stored>(step.k);
  arrange<Stored>(step.decay);
  for (int64_t c = 0; c < kDim; c += kLanes) {
    const Lanes decay = load(step.decay.values + c);
    store(step.decayed_q.values + c, multiply(load(step.q.values + c), decay));
    store(step.decayed_k.values + c, multiply(load(step.k.values + c), decay));
  }
}

constexpr int64_t kRowPairs = kDim / kPairColumns;
constexpr int64_t kLineBytes = 64;

/// Asks for `count` neighbouring elements in L2.
template <class T>
SILT_INLINE void ask_for(const T* from, int64_t count) {
  const char* first = reinterpret_cast<const char*>(from);
  for (int64_t at = 0; at < count * static_cast<int64_t>(sizeof(T)); at += kLineBytes) prefetch_l2(first + at);
}

/// The state of the task to come, asked for in L2 a few lines at a time. A core that asks for more lines than it can
/// wait for stops at its next load, and one that asks for none leaves the memory idle: so the lines are spread over
/// everything a task does, rows and what comes before and behind them, by the time each takes.
template <class Stored>
class Ahead {
 public:
  /// A null state asks for nothing.
  explicit Ahead(const Stored* state) : next_(reinterpret_cast<const char*>(state)) {
    end_ = state == nullptr ? nullptr : next_ + kDim * kRowBytes;
  }

  /// Every fourth row, once for its products and once for its update: 7/8 of the state in all.
  SILT_INLINE void ask_at_row(int64_t v) {
    if (v % 4 == 0) ask(kRowBytes * 7 / 4);
  }
  /// Every step before the rows, some six of them for the last eighth.
  SILT_INLINE void ask_at_step() { ask(kRowBytes * 11 / 4); }
  SILT_INLINE void ask_for_rest() {
    for (; next_ < end_; next_ += kLineBytes) prefetch_l2(next_);
  }

 private:
  static constexpr int64_t kRowBytes = kDim * static_cast<int64_t>(sizeof(Stored));

  SILT_INLINE void ask(int64_t bytes) {
    if (next_ >= end_) return;
    for (int64_t at = 0; at < bytes; at += kLineBytes) prefetch_l2(next_ + at);
    next_ += bytes;
  }

  const char* next_;
  const char* end_;
};

/// Rows of a state that are worked on at once: 8 KiB of fp32, in L1 between their two passes.
constexpr int kBlockRows = kLanes;

/// A vector of the step in registers, as far as they reach.
struct Held {
  Pair pair[kRowPairs];
};
SILT_INLINE Held hold(const Vector& x) {
  Held r;
  _Pragma("GCC unroll 4") for (int64_t i = 0; i < kRowPairs; ++i) r.pair[i] = load_pair(x.values + i * kPairColumns);
  return r;
}

/// Rows whose sums are held in registers beside the vectors: their additions hide each other's latency.
constexpr int kProductRows = kStep >= 16 ? 4 : 2;

/// S.(decay*k) and S.(decay*q) of a block.
template <class Stored>
SILT_INLINE void block_products(const Step& step, const Stored* rows, Ahead<Stored>& ahead, float* with_k,
                                float* with_q) {
  const Held k = hold(step.decayed_k);
  const Held q = hold(step.decayed_q);
  for (int64_t v = 0; v < kBlockRows; v += kProductRows) {
    ahead.ask_at_row(v);
    Lanes k_sum[kProductRows];
    Lanes q_sum[kProductRows];
    _Pragma("GCC unroll 4") for (int64_t r = 0; r < kProductRows; ++r) k_sum[r] = q_sum[r] = zero();
    _Pragma("GCC unroll 4") for (int64_t i = 0; i < kRowPairs; ++i) {
      _Pragma("GCC unroll 4") for (int64_t r = 0; r < kProductRows; ++r) {
        const Pair row = load_pair(rows + (v + r) * kDim + i * kPairColumns);
        k_sum[r] = multiply_add(row.first, k.pair[i].first, k_sum[r]);
        q_sum[r] = multiply_add(row.first, q.pair[i].first, q_sum[r]);
        k_sum[r] = multiply_add(row.second, k.pair[i].second, k_sum[r]);
        q_sum[r] = multiply_add(row.second, q.pair[i].second, q_sum[r]);
      }
    }
    if constexpr (kProductRows == 4) {
      sums(k_sum[0], k_sum[1], k_sum[2], k_sum[3], with_k + v);
      sums(q_sum[0], q_sum[1], q_sum[2], q_sum[3], with_q + v);
    } else {
      alignas(16) float total[4];
      sums(k_sum[0], k_sum[1], q_sum[0], q_sum[1], total);
      __builtin_memcpy(with_k + v, total, 2 * sizeof(float));
      __builtin_memcpy(with_q + v, total + 2, 2 * sizeof(float));
    }
  }
}

/// S = S*decay + e*k.
template <class Stored>
SILT_INLINE void block_update(const Step& step, const float* e, Ahead<Stored>& ahead, Stored* rows) {
  const Held decay = hold(step.decay);
  const Held k = hold(step.k);
  for (int64_t v = 0; v < kBlockRows; ++v) {
    ahead.ask_at_row(v);
    const Lanes correction = broadcast(e[v]);
    _Pragma("GCC unroll 4") for (int64_t i = 0; i < kRowPairs; ++i) {
      Stored* to = rows + v * kDim + i * kPairColumns;
      const Pair row = load_pair(to);
      store_pair(to, Pair{multiply_add(correction, k.pair[i].first, multiply(row.first, decay.pair[i].first)),
                          multiply_add(correction, k.pair[i].second, multiply(row.second, decay.pair[i].second))});
    }
  }
}

/// Rows [begin, end), multiples of kBlockRows, of a stored state of 128 x 128, in place; computed in fp32, rounded once
/// where it is bf16. Two passes over a block, because the vectors of one pass fit the registers of AVX-512 and those of
/// both do not: loads, not arithmetic, are what a single pass waits for.
template <class Stored>
SILT_INLINE void delta_rule(const Step& step, Stored* state, int64_t begin, int64_t end, Ahead<Stored>& ahead,
                            float* o) {
  for (int64_t v = begin; v < end; v += kBlockRows) {
    Stored* rows = state + v * kDim;
    alignas(64) float with_k[kBlockRows];
    alignas(64) float with_q[kBlockRows];
    alignas(64) float e[kBlockRows];
    block_products(step, rows, ahead, with_k, with_q);
    const Lanes correction = multiply(subtract(load(step.v.values + v), load(with_k)), broadcast(step.beta));
    store(o + v, multiply_add(correction, broadcast(step.kq), load(with_q)));
    store(e, correction);
    block_update(step, e, ahead, rows);
  }
}

/// y = x * scale * weight * act(gate)
template <class GateAct, class Out>
SILT_INLINE void gated_scaled(const Vector& x, const GateAct* gate, const float* weight, float scale,
                              GateActivation activation, Out* y) {
  static_assert(kTogether % 2 == 0);
  for (int64_t c = 0; c < kDim; c += kColumnsTogether) {
    Several open;
    SILT_EACH_TOGETHER put(open, r, load(gate + c + r * kLanes));
    open = activation == GateActivation::sigmoid ? sigmoid(open) : silu(open);
    Lanes result[kTogether];
    SILT_EACH_TOGETHER {
      const int64_t at = c + r * kLanes;
      const Lanes scaled = multiply(multiply(load(x.values + at), broadcast(scale)), load(weight + at));
      result[r] = multiply(scaled, take(open, r));
    }
    _Pragma("GCC unroll 4") for (int r = 0; r < kTogether; r += 2)
        store_pair(y + c + r * kLanes, pair_of_columns<Out>(result[r], result[r + 1]));
  }
}

/// y = x * rsqrt(mean(x^2) + eps) * weight * act(gate)
template <class GateAct, class Out>
SILT_INLINE void gated_norm(const Vector& x, const GateAct* gate, const float* weight, float eps,
                            GateActivation activation, Out* y) {
  const float scale = 1.0F / std::sqrt(dot(x, x) / static_cast<float>(kDim) + eps);
  gated_scaled(x, gate, weight, scale, activation, y);
}

}  // namespace silt::SILT_SIMD_NAMESPACE::kda_steps
SILT_SIMD_END;
