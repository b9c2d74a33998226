// The front and the back of a head for 16 tokens at once: the operations of the token loop on the same values, so the
// same bits. A weight is loaded once for 16 tokens, an input once for the four taps that meet it, and norms and betas
// of 16 tokens are one vector.
#pragma once

#include "kda/prefill/cpu/simd_sequences.inl.hpp"

SILT_SIMD_BEGIN;
namespace silt::SILT_SIMD_NAMESPACE::prefill {

/// What 16 tokens bring to the delta rule.
struct Block {
  Vector rows[2 * kBlock];  ///< k of every token, then q of every token
  Vector v[kBlock];
  Vector decay[kBlock];
  Vector carried[kBlock];  ///< keys with the decays of the tokens behind them (simd_triangles.inl.hpp)
  alignas(64) float beta[kBlock];
  alignas(64) float k_scale[kBlock];  ///< what normalises k and q
  alignas(64) float q_scale[kBlock];

  Vector* k() { return rows; }
  Vector* q() { return rows + kBlock; }
  [[nodiscard]] const Vector* k() const { return rows; }
  [[nodiscard]] const Vector* q() const { return rows + kBlock; }
};
static_assert(kBlock % kTogether == 0);
static_assert(kBlock == kLanes, "one number of each token fills Lanes");

/// One part of 16 tokens; `ahead` is how far the inputs of the next 16 tokens lie behind, 0 where there are none.
template <class Act>
SILT_INLINE void convolve_block(const kda::HeadWeights& weights, int64_t part, const Act* const* rows, int64_t ahead,
                                Vector* z) {
  const float* weight = weights.conv_weight + part * kda::kTaps * weights.tap_stride;
  const float* bias = weights.conv_bias == nullptr ? nullptr : weights.conv_bias + part * weights.tap_stride;
  for (int64_t c = 0; c < kDim; c += kLanes) {
    const Lanes start = bias == nullptr ? zero() : load(bias + c);
    Lanes taps[kda::kTaps];
    _Pragma("GCC unroll 4") for (int64_t tap = 0; tap < kda::kTaps; ++tap) taps[tap] =
        load(weight + tap * weights.tap_stride + c);
    Lanes input[kda::kHistory + kTogether];
    _Pragma("GCC unroll 4") for (int64_t i = 0; i < kda::kHistory; ++i) input[i] = load(rows[i] + c);
    for (int64_t t = 0; t < kBlock; t += kTogether) {
      Several y;
      SILT_EACH_TOGETHER {
        const Act* row = rows[t + r + kda::kHistory] + c;
        prefetch_l2(row + ahead);
        input[r + kda::kHistory] = load(row);
        Lanes total = start;
        _Pragma("GCC unroll 4") for (int64_t tap = 0; tap < kda::kTaps; ++tap) total =
            multiply_add(taps[tap], input[r + tap], total);
        put(y, r, total);
      }
      y = silu(y);
      SILT_EACH_TOGETHER store(z[t + r].values + c, take(y, r));
      _Pragma("GCC unroll 4") for (int64_t i = 0; i < kda::kHistory; ++i) input[i] = input[i + kTogether];
    }
  }
}

/// The decays of 16 tokens from their raw gates.
template <bool kSafe, class Act>
SILT_INLINE void decay_block(const kda::HeadWeights& weights, const Act* raw_gate, int64_t stride, int64_t ahead,
                             Vector* decay) {
  const Several a = kda_steps::gate_slope(weights);
  for (int64_t c = 0; c < kDim; c += kLanes) {
    const Lanes dt = load(weights.dt_bias + c);
    for (int64_t t = 0; t < kBlock; t += kTogether) {
      Several g;
      SILT_EACH_TOGETHER {
        const Act* row = raw_gate + (t + r) * stride + c;
        prefetch_l2(row + ahead);
        put(g, r, add(load(row), dt));
      }
      const Several factors = kda_steps::decays<kSafe>(weights, a, g);
      SILT_EACH_TOGETHER store(decay[t + r].values + c, take(factors, r));
    }
  }
}

/// Tokens `first` to `first + 15` of the head, before the norms of q and k.
template <class Act, class Stored>
void front_block(const Head<Act, Stored>& head, int64_t first, Block& block) {
  const bool more = first + 2 * kBlock <= head.tokens();
  const kda::HeadWeights& weights = head.weights();
  Vector* parts[] = {block.q(), block.k(), block.v};
  for (int64_t part = 0; part < kda::kParts; ++part) {
    const Act* rows[kda::kHistory + kBlock];
    head.block_inputs(part, first, rows);
    convolve_block(weights, part, rows, more ? kBlock * head.x_stride() : 0, parts[part]);
  }
  const Act* raw_gate = head.token(first).raw_gate;
  const int64_t stride = head.gate_stride();
  const int64_t ahead = more ? kBlock * stride : 0;
  if (weights.gate == kda::Gate::safe) {
    decay_block<true>(weights, raw_gate, stride, ahead, block.decay);
  } else {
    decay_block<false>(weights, raw_gate, stride, ahead, block.decay);
  }
  for (int64_t t = 0; t < kBlock; ++t) block.beta[t] = to_float(*head.token(first + t).raw_beta);
  store(block.beta, sigmoid(load(block.beta)));
}

/// 1 / sqrt(x' * x / divisor + eps) of 16 vectors.
SILT_INLINE Lanes inverse_norms(const Vector* x, float divisor, float eps) {
  alignas(64) float squares[kBlock];
  for (int64_t t = 0; t < kBlock; t += 4) {
    Lanes total[4] = {zero(), zero(), zero(), zero()};
    for (int64_t c = 0; c < kDim; c += kLanes) {
      _Pragma("GCC unroll 4") for (int64_t r = 0; r < 4; ++r) {
        const Lanes value = load(x[t + r].values + c);
        total[r] = multiply_add(value, value, total[r]);
      }
    }
    sums(total[0], total[1], total[2], total[3], squares + t);
  }
  const Lanes mean = add(divide(load(squares), broadcast(divisor)), broadcast(eps));
  return divide(broadcast(1.0F), square_root(mean));
}

/// The outputs of tokens `first` to `first + 15`.
template <class Act, class Stored>
void back_block(const Head<Act, Stored>& head, int64_t first, const Vector* o) {
  const float* weight = head.weights().norm_weight;
  if (weight == nullptr) {
    for (int64_t t = 0; t < kBlock; ++t) kda_steps::store_head(o[t], head.output(first + t));
    return;
  }
  alignas(64) float scale[kBlock];
  store(scale, inverse_norms(o, static_cast<float>(kDim), head.weights().norm_eps));
  const bool more = first + 2 * kBlock <= head.tokens();
  const int64_t ahead = more ? kBlock * head.output_gate_stride() : 0;
  for (int64_t t = 0; t < kBlock; ++t) {
    const Act* gate = head.token(first + t).output_gate;
    for (int64_t c = 0; c < kDim; c += kLanes) prefetch_l2(gate + ahead + c);
    kda_steps::gated_scaled(o[t], gate, weight, scale[t], GateActivation::sigmoid, head.output(first + t));
  }
}

}  // namespace silt::SILT_SIMD_NAMESPACE::prefill
SILT_SIMD_END;
