// What the tokens of a chunk are to each other, on one SIMD target: both triangles, and the vectors that meet the
// state.
//
// With d_t the decay of token t, blocks of 1, 2, 4, 8 and 16 tokens from s to t each know
//   k_i d_s ... d_i and q_i d_s ... d_i   for what lies before the block,
//   k_j d_{j+1} ... d_t                   for what lies behind it,
//   d_s ... d_t.
// Two neighbours become one: the later one's k and q times the earlier one's keys are a square of each triangle, and
// then each takes on the decays of the other. Every factor is a product of decays, at most 1; nothing is divided, no
// difference is exponentiated; and only keys of earlier tokens are met, NaN included. Walking every key on token by
// token costs half as many multiplications again, and its sums come out one token at a time.
#pragma once

#include "kda/prefill/cpu/simd_blocks.inl.hpp"

SILT_SIMD_BEGIN;
namespace silt::SILT_SIMD_NAMESPACE::prefill {

/// with_k[i][j], j < i: k_i.(k_j d_{j+1} ... d_i). with_q[i][j], j <= i: the same with q_i. The rest is not written.
struct Triangles {
  float with_k[kBlock][kBlock];
  float with_q[kBlock][kBlock];
};

/// Tokens of the blocks that are made in registers.
constexpr int kLeaf = kParts == 1 ? 4 : 2;
/// A square is made of tiles: 2 tokens' k and q times so many keys, in 16 accumulators or 8.
constexpr int kTileTokens = 2;
constexpr int kTileKeys = kParts == 1 ? 4 : 2;
constexpr int kTile = 2 * kTileTokens * kTileKeys;

/// 16 channels of a few tokens.
template <int kTokens>
struct Leaf {
  Lanes k[kTokens];
  Lanes q[kTokens];
  Lanes carried[kTokens];
  Lanes decay[kTokens];
};

constexpr int pair_place(int i, int j) { return i * (i - 1) / 2 + j; }
constexpr int pairs_of(int tokens) { return tokens * (tokens - 1) / 2; }

/// Neighbouring blocks of kHalf tokens become one; `total` has a place for every pair with k, then for every pair with
/// q.
template <int kTokens, int kHalf>
SILT_INLINE void merge_in_registers(Leaf<kTokens>& leaf, Lanes* total) {
  _Pragma("GCC unroll 2") for (int first = 0; first < kTokens; first += 2 * kHalf) {
    _Pragma("GCC unroll 2") for (int i = first + kHalf; i < first + 2 * kHalf; ++i) {
      _Pragma("GCC unroll 2") for (int j = first; j < first + kHalf; ++j) {
        Lanes& with_k = total[pair_place(i, j)];
        Lanes& with_q = total[pairs_of(kTokens) + pair_place(i, j)];
        with_k = multiply_add(leaf.k[i], leaf.carried[j], with_k);
        with_q = multiply_add(leaf.q[i], leaf.carried[j], with_q);
      }
      leaf.k[i] = multiply(leaf.k[i], leaf.decay[first]);
      leaf.q[i] = multiply(leaf.q[i], leaf.decay[first]);
    }
    _Pragma("GCC unroll 2") for (int j = first; j < first + kHalf; ++j) leaf.carried[j] =
        multiply(leaf.carried[j], leaf.decay[first + kHalf]);
    leaf.decay[first] = multiply(leaf.decay[first], leaf.decay[first + kHalf]);
  }
}

/// A block of kLeaf tokens from `first` on, whose q and k are still to be scaled.
SILT_INLINE void make_leaf(Block& block, int64_t first, Lanes* total) {
  _Pragma("GCC unroll 4") for (int i = 0; i < kLeaf * kLeaf; ++i) total[i] = zero();
  for (int64_t c = 0; c < kDim; c += kLanes) {
    Leaf<kLeaf> leaf;
    _Pragma("GCC unroll 4") for (int i = 0; i < kLeaf; ++i) {
      const int64_t token = first + i;
      const Lanes k = multiply(load(block.k()[token].values + c), broadcast(block.k_scale[token]));
      const Lanes q = multiply(load(block.q()[token].values + c), broadcast(block.q_scale[token]));
      Lanes& own = total[2 * pairs_of(kLeaf) + i];
      own = multiply_add(k, q, own);
      leaf.decay[i] = load(block.decay[token].values + c);
      leaf.carried[i] = k;
      leaf.k[i] = multiply(k, leaf.decay[i]);
      leaf.q[i] = multiply(q, leaf.decay[i]);
    }
    merge_in_registers<kLeaf, 1>(leaf, total);
    if constexpr (kLeaf == 4) merge_in_registers<kLeaf, 2>(leaf, total);
    _Pragma("GCC unroll 4") for (int i = 0; i < kLeaf; ++i) {
      store(block.k()[first + i].values + c, leaf.k[i]);
      store(block.q()[first + i].values + c, leaf.q[i]);
      store(block.carried[first + i].values + c, leaf.carried[i]);
    }
    store(block.decay[first].values + c, leaf.decay[0]);
  }
}

/// make_leaf, and its part of the triangles.
inline void add_leaf(Block& block, int64_t first, Triangles& triangles) {
  constexpr int kPairs = pairs_of(kLeaf);
  static_assert(2 * kPairs + kLeaf == kLeaf * kLeaf);
  Lanes total[kLeaf * kLeaf];
  make_leaf(block, first, total);
  alignas(64) float sum[kLeaf * kLeaf];
  _Pragma("GCC unroll 4") for (int i = 0; i < kLeaf * kLeaf; i += 4)
      sums(total[i], total[i + 1], total[i + 2], total[i + 3], sum + i);
  for (int i = 0; i < kLeaf; ++i) {
    for (int j = 0; j < i; ++j) {
      triangles.with_k[first + i][first + j] = sum[pair_place(i, j)];
      triangles.with_q[first + i][first + j] = sum[kPairs + pair_place(i, j)];
    }
    triangles.with_q[first + i][first + i] = sum[2 * kPairs + i];
  }
}

/// k and q of tokens `first` on times the keys of tokens `key` on.
inline void add_tile(const Block& block, int64_t first, int64_t key, Triangles& triangles) {
  Lanes total[kTile];
  SILT_EACH_PART {
    FloatVector part[kTile];
    _Pragma("GCC unroll 16") for (int at = 0; at < kTile; ++at) part[at] = hn::Zero(FloatTag());
    for (int64_t c = i * kStep; c < kDim; c += kLanes) {
      FloatVector keys[kTileKeys];
      _Pragma("GCC unroll 4") for (int s = 0; s < kTileKeys; ++s) keys[s] =
          hn::LoadU(FloatTag(), block.carried[key + s].values + c);
      _Pragma("GCC unroll 4") for (int r = 0; r < 2 * kTileTokens; ++r) {
        const Vector& of = r < kTileTokens ? block.k()[first + r] : block.q()[first + r - kTileTokens];
        const auto row = hn::LoadU(FloatTag(), of.values + c);
        _Pragma("GCC unroll 4") for (int s = 0; s < kTileKeys; ++s) part[r * kTileKeys + s] =
            hn::MulAdd(row, keys[s], part[r * kTileKeys + s]);
      }
    }
    _Pragma("GCC unroll 16") for (int at = 0; at < kTile; ++at) total[at].part[i] = part[at];
  }
  alignas(64) float sum[kTile];
  _Pragma("GCC unroll 4") for (int at = 0; at < kTile; at += 4)
      sums(total[at], total[at + 1], total[at + 2], total[at + 3], sum + at);
  constexpr size_t kBytes = kTileKeys * sizeof(float);
  for (int r = 0; r < kTileTokens; ++r) {
    __builtin_memcpy(triangles.with_k[first + r] + key, sum + r * kTileKeys, kBytes);
    __builtin_memcpy(triangles.with_q[first + r] + key, sum + (kTileTokens + r) * kTileKeys, kBytes);
  }
}

SILT_INLINE void take_on(float* x, Lanes decay) { store(x, multiply(load(x), decay)); }

/// Two neighbouring blocks of kHalf tokens, the earlier one from `first` on, become one.
template <int kHalf>
void merge(Block& block, int64_t first, Triangles& triangles) {
  for (int64_t i = first + kHalf; i < first + 2 * kHalf; i += kTileTokens) {
    for (int64_t j = first; j < first + kHalf; j += kTileKeys) add_tile(block, i, j, triangles);
  }
  for (int64_t c = 0; c < kDim; c += kLanes) {
    const Lanes before = load(block.decay[first].values + c);
    const Lanes behind = load(block.decay[first + kHalf].values + c);
    _Pragma("GCC unroll 8") for (int i = 0; i < kHalf; ++i) {
      take_on(block.k()[first + kHalf + i].values + c, before);
      take_on(block.q()[first + kHalf + i].values + c, before);
      take_on(block.carried[first + i].values + c, behind);
    }
    store(block.decay[first].values + c, multiply(before, behind));
  }
}

/// From what front_block left: q and k normalised, then k_i d_0 ... d_i and q_i d_0 ... d_i in their places; carried
/// and decay[0] with the decays of the whole chunk; both triangles.
inline void make_triangles(Block& block, Triangles& triangles) {
  store(block.k_scale, inverse_norms(block.k(), 1.0F, kda::kL2Epsilon));
  store(block.q_scale, multiply(broadcast(kda_steps::kScale), inverse_norms(block.q(), 1.0F, kda::kL2Epsilon)));
  for (int64_t first = 0; first < kBlock; first += kLeaf) add_leaf(block, first, triangles);
  if constexpr (kLeaf == 2) {
    for (int64_t first = 0; first < kBlock; first += 4) merge<2>(block, first, triangles);
  }
  for (int64_t first = 0; first < kBlock; first += 8) merge<4>(block, first, triangles);
  merge<8>(block, 0, triangles);
}

}  // namespace silt::SILT_SIMD_NAMESPACE::prefill
SILT_SIMD_END;
