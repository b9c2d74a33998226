// What: kda_prefill (contract.md) on one SIMD target, 16 tokens of a sequence at once.
//
// When: every checked problem of at least 16 tokens. A sequence's full chunks count from its first token; the fewer
// than 16 tokens that are left over, and sequences shorter than a chunk, go through the token loop.
//
// Plan: with d_t the decay of token t, S the state before the chunk, and all products of decays running over
// neighbouring tokens of the chunk:
//   D_i = d_0 ... d_i,  kc_ij = k_j d_{j+1} ... d_i,  L_ij = k_i.kc_ij (j < i),  A_ij = q_i.kc_ij (j <= i),
//   e_i = beta_i (v_i - S (k_i D_i) - sum_{j<i} L_ij e_j),  o_i = S (q_i D_i) + sum_{j<=i} A_ij e_j,
//   S' = S D_15 + sum_j e_j kc_15,j.
// kc is a vector per key that walks on by one decay a token: every factor is at most 1, nothing is divided, no
// difference is exponentiated, so that the whole range of the gates is safe and a decay of 0 is a 0. L and A are
// triangles and only their own half is computed or read: no token meets a later one, NaN included.
//
// Data path: the state lives in panels (simd_panels.inl.hpp), 8 KiB each. A panel is in L1 for all that the chunk does
// to it: products with the 32 vectors k_i D_i and q_i D_i, the triangle, the update; then it is back in L2 for 16
// tokens. Tasks, shares, history and norms are those of the token loop (simd_sequences.inl.hpp).
//
// Bytes: state and history once each way, x, gates and output once (cost.cpp).
//
// Roofline: three multiply-adds per state element and token are 6,144 of eight lanes, 3,072 cycles where two start in
// a cycle. The triangles and the front and back (six exponentials and five divisions a channel and token) come on top.
//
// Rounding: fp32 throughout, one rounding at the output and at a bf16 state. Sums over keys left to right in fused
// steps, triangles likewise: the bits of a sequence depend on the sequence alone, not on the thread count, the split,
// the batch or the target; with an fp32 state not on cuts at multiples of 16 tokens either.
//
// Tried, with numbers in docs/ladder/kda_prefill_cpu.md.
#pragma once

#include "kda/prefill/cpu/cpu_simd_chunk16.hpp"
#include "kda/prefill/cpu/simd_panels.inl.hpp"
#include "kda/prefill/cpu/simd_sequences.inl.hpp"

SILT_SIMD_BEGIN;
namespace silt::SILT_SIMD_NAMESPACE::prefill {

using kda_prefill_cpu_simd_chunk16::kChunk;
static_assert(kChunk == kBlock, "a chunk ends where the sharers meet");

/// Rows of a register tile: as many accumulators as hide the latency of a multiply-add (8 on AVX2, in two registers
/// each; 16 where there are 32 registers).
constexpr int64_t kTileRows = kStep >= 16 ? 16 : 4;
#define SILT_EACH_ROW _Pragma("GCC unroll 16") for (int64_t r = 0; r < kTileRows; ++r)
static_assert(2 * kChunk % kTileRows == 0 && kDim % kTileRows == 0, "tiles are whole");

struct Chunk {
  Vector decayed[2 * kChunk];  ///< k_i D_i and q_i D_i in turn
  Vector carried[kChunk];      ///< kc: the keys with the decays of the tokens behind them
  Vector decay;                ///< D of the last token so far
  Vector v[kChunk];
  float beta[kChunk];
  float with_k[kChunk][kChunk];  ///< L
  float with_q[kChunk][kChunk];  ///< A
};

// ---- What a chunk needs of its tokens, before it meets the state
/// Keys j to j + kKeys - 1 walk on by the decay of token i and meet its k and q.
template <int kKeys>
SILT_INLINE void meet_keys(Chunk& chunk, int64_t i, int64_t j, const kda_steps::Step& step) {
  Lanes k_sum[2] = {zero(), zero()};
  Lanes q_sum[2] = {zero(), zero()};
  for (int64_t c = 0; c < kDim; c += kLanes) {
    const Lanes decay = load(step.decay.values + c);
    const Lanes k = load(step.k.values + c);
    const Lanes q = load(step.q.values + c);
    _Pragma("GCC unroll 2") for (int r = 0; r < kKeys; ++r) {
      float* key = chunk.carried[j + r].values + c;
      const Lanes walked = multiply(load(key), decay);
      store(key, walked);
      k_sum[r] = multiply_add(walked, k, k_sum[r]);
      q_sum[r] = multiply_add(walked, q, q_sum[r]);
    }
  }
  alignas(16) float total[4];
  sums(k_sum[0], k_sum[1], q_sum[0], q_sum[1], total);
  __builtin_memcpy(chunk.with_k[i] + j, total, kKeys * sizeof(float));
  __builtin_memcpy(chunk.with_q[i] + j, total + 2, kKeys * sizeof(float));
}

/// Token i of the chunk: v, beta, rows i of both triangles, k D and q D.
inline void add_token(Chunk& chunk, int64_t i, kda_steps::Step& step) {
  kda_steps::normalise(step.q, kda_steps::kScale);
  kda_steps::normalise(step.k, 1.0F);
  int64_t j = 0;
  for (; j + 2 <= i; j += 2) meet_keys<2>(chunk, i, j, step);
  for (; j < i; ++j) meet_keys<1>(chunk, i, j, step);
  chunk.with_q[i][i] = kda_steps::dot(step.k, step.q);
  chunk.carried[i] = step.k;
  chunk.v[i] = step.v;
  chunk.beta[i] = step.beta;
  for (int64_t c = 0; c < kDim; c += kLanes) {
    Lanes decay = load(step.decay.values + c);
    if (i > 0) decay = multiply(load(chunk.decay.values + c), decay);
    store(chunk.decay.values + c, decay);
    store(chunk.decayed[2 * i].values + c, multiply(load(step.k.values + c), decay));
    store(chunk.decayed[2 * i + 1].values + c, multiply(load(step.q.values + c), decay));
  }
}

template <class Act, class Stored>
void gather(const Head<Act, Stored>& head, int64_t first, Chunk& chunk) {
  for (int64_t i = 0; i < kChunk; ++i) {
    kda_steps::Step step;
    head.front(first + i, step);
    add_token(chunk, i, step);
  }
}

// ---- What a chunk does to a panel
/// The panel times vectors [first, first + kTileRows) of `decayed`.
SILT_INLINE void tile_products(const Chunk& chunk, int64_t first, const float* panel, float* products) {
  Lanes total[kTileRows];
  SILT_EACH_ROW total[r] = zero();
  const float* vectors = chunk.decayed[first].values;
  for (int64_t k = 0; k < kDim; ++k) {
    const Lanes state = load(panel + k * kLanes);
    SILT_EACH_ROW total[r] = multiply_add(broadcast(vectors[r * kDim + k]), state, total[r]);
  }
  SILT_EACH_ROW store(products + (first + r) * kLanes, total[r]);
}

/// e of every token, and o of every token for the rows from v on.
SILT_INLINE void solve(const Chunk& chunk, const float* products, int64_t v, float* e, Vector* o) {
  for (int64_t i = 0; i < kChunk; ++i) {
    Lanes open = subtract(load(chunk.v[i].values + v), load(products + 2 * i * kLanes));
    Lanes read = load(products + (2 * i + 1) * kLanes);
    for (int64_t j = 0; j < i; ++j) {
      const Lanes earlier = load(e + j * kLanes);
      open = multiply_subtract_from(broadcast(chunk.with_k[i][j]), earlier, open);
      read = multiply_add(broadcast(chunk.with_q[i][j]), earlier, read);
    }
    const Lanes correction = multiply(open, broadcast(chunk.beta[i]));
    store(e + i * kLanes, correction);
    store(o[i].values + v, multiply_add(broadcast(chunk.with_q[i][i]), correction, read));
  }
}

/// Keys [k, k + kTileRows) of the panel after the chunk.
SILT_INLINE void tile_update(const Chunk& chunk, int64_t k, const float* e, float* panel) {
  Lanes state[kTileRows];
  SILT_EACH_ROW state[r] = multiply(load(panel + (k + r) * kLanes), broadcast(chunk.decay.values[k + r]));
  // Unrolled, its corrections would be hoisted out of the loop over keys, and out of the registers.
  _Pragma("GCC unroll 1") for (int64_t j = 0; j < kChunk; ++j) {
    const Lanes correction = load(e + j * kLanes);
    SILT_EACH_ROW state[r] = multiply_add(broadcast(chunk.carried[j].values[k + r]), correction, state[r]);
  }
  SILT_EACH_ROW store(panel + (k + r) * kLanes, state[r]);
}

/// Rows v to v + 15 through the chunk.
inline void run_panel(const Chunk& chunk, int64_t v, float* panel, Vector* o) {
  alignas(64) float products[2 * kChunk * kLanes];
  alignas(64) float e[kChunk * kLanes];
  for (int64_t first = 0; first < 2 * kChunk; first += kTileRows) tile_products(chunk, first, panel, products);
  solve(chunk, products, v, e, o);
  for (int64_t k = 0; k < kDim; k += kTileRows) tile_update(chunk, k, e, panel);
}
#undef SILT_EACH_ROW

// ---- A head
/// All full chunks; the state goes from its slot to fp32 rows, which may be the slot itself.
template <class Act, class Stored>
void run_full_chunks(const Head<Act, Stored>& head, const Member& member, float* rows) {
  const Share& share = head.share;
  alignas(64) float panels[kDim * kDim];
  if (head.known) {
    open_panels(head.stored, share.begin, share.end, panels);
  } else {
    std::fill(panels + share.begin * kDim, panels + share.end * kDim, 0.0F);
  }
  Chunk chunk;
  for (int64_t first = 0; first + kChunk <= head.tokens(); first += kChunk) {
    gather(head, first, chunk);
    Vector* o = member.outputs(first);
    for (int64_t v = share.begin; v < share.end; v += kPanelRows) run_panel(chunk, v, panels + v * kDim, o);
    finish_block(head, member, first, kChunk, o);
  }
  close_panels(panels, share.begin, share.end, rows);
}

/// Full chunks, then the tokens left over, on fp32 rows.
template <class Act, class Stored>
void run_chunks(const Head<Act, Stored>& head, const Member& member, float* rows) {
  run_full_chunks(head, member, rows);
  const int64_t left = head.tokens() % kChunk;
  if (left == 0) return;
  run_block_of_tokens<float, Act, Stored, float>(head, member, head.tokens() - left, left, rows, nullptr);
}

struct Chunks {
  template <class Act, class Stored>
  static void run(const Head<Act, Stored>& head, const Member& member, const Stored* next) {
    if (head.tokens() < kChunk) {
      run_tokens(head, member, next);
    } else if constexpr (sizeof(Stored) == sizeof(float)) {
      run_chunks(head, member, head.stored);
    } else {
      alignas(64) float rows[kDim * kDim];
      run_chunks(head, member, rows);
      store_rows(rows, head.share.begin, head.share.end, head.stored);
    }
  }
};

}  // namespace silt::SILT_SIMD_NAMESPACE::prefill
SILT_SIMD_END;
