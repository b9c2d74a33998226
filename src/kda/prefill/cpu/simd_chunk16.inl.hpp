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
// k_i D_i, q_i D_i, kc_15,j, L and A are made by blocks of tokens (simd_triangles.inl.hpp): every factor is a product
// of decays, at most 1, nothing is divided, no difference is exponentiated, so that the whole range of the gates is
// safe and a decay of 0 is a 0. L and A are triangles and only their own half is computed or read: no token meets a
// later one, NaN included.
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
#include "kda/prefill/cpu/simd_triangles.inl.hpp"

SILT_SIMD_BEGIN;
namespace silt::SILT_SIMD_NAMESPACE::prefill {

using kda_prefill_cpu_simd_chunk16::kChunk;
static_assert(kChunk == kBlock, "a chunk ends where the sharers meet");

/// Rows of a register tile: as many accumulators as hide the latency of a multiply-add, 12 or 16, and as many as there
/// are registers for (two to a row on AVX2, four on NEON).
constexpr int64_t kTileRows = kParts == 1 ? 16 : kParts == 2 ? 6 : 4;
/// Rows of the tiles that take what is left.
constexpr int64_t kRestRows = 4;
/// Where the tiles of kTileRows end.
constexpr int64_t whole_tiles(int64_t rows) {
  int64_t end = rows / kTileRows * kTileRows;
  while ((rows - end) % kRestRows != 0) end -= kTileRows;
  return end;
}
#define SILT_EACH_ROW _Pragma("GCC unroll 16") for (int64_t r = 0; r < kRows; ++r)

// ---- What a chunk does to a panel
/// The panel times rows [first, first + kRows): k_i D_i of every token, then q_i D_i.
template <int64_t kRows>
SILT_INLINE void tile_products(const Block& block, int64_t first, const float* panel, float* products) {
  Lanes total[kRows];
  SILT_EACH_ROW total[r] = zero();
  const float* vectors = block.rows[first].values;
  for (int64_t k = 0; k < kDim; ++k) {
    const Lanes state = load(panel + k * kLanes);
    SILT_EACH_ROW total[r] = multiply_add(broadcast(vectors[r * kDim + k]), state, total[r]);
  }
  SILT_EACH_ROW store(products + (first + r) * kLanes, total[r]);
}

/// Tokens whose sums are held in registers: 8 accumulators.
constexpr int kSolved = 4;

/// What token i owes to the correction of token j.
SILT_INLINE void owe(const Triangles& triangles, int64_t i, int64_t j, FloatVector correction, FloatVector& open,
                     FloatVector& read) {
  open = hn::NegMulAdd(hn::Set(FloatTag(), triangles.with_k[i][j]), correction, open);
  read = hn::MulAdd(hn::Set(FloatTag(), triangles.with_q[i][j]), correction, read);
}

/// Tokens [first, first + kSolved) of one register's values: what they owe to the blocks before is summed for all of
/// them at once. `v`, `o` and `e` point at the values of token 0.
SILT_INLINE void solve_tokens(const Block& block, const Triangles& triangles, const float* products, int64_t first,
                              const float* v, float* e, float* o) {
  const FloatTag tag;
  FloatVector open[kSolved];
  FloatVector read[kSolved];
  _Pragma("GCC unroll 4") for (int r = 0; r < kSolved; ++r) {
    const int64_t i = first + r;
    open[r] = hn::Sub(hn::LoadU(tag, v + i * kDim), hn::LoadU(tag, products + i * kLanes));
    read[r] = hn::LoadU(tag, products + (kChunk + i) * kLanes);
  }
  for (int64_t j = 0; j < first; ++j) {
    const auto earlier = hn::LoadU(tag, e + j * kLanes);
    _Pragma("GCC unroll 4") for (int r = 0; r < kSolved; ++r) owe(triangles, first + r, j, earlier, open[r], read[r]);
  }
  _Pragma("GCC unroll 4") for (int r = 0; r < kSolved; ++r) {
    const int64_t i = first + r;
    const auto correction = hn::Mul(open[r], hn::Set(tag, block.beta[i]));
    hn::StoreU(correction, tag, e + i * kLanes);
    hn::StoreU(hn::MulAdd(hn::Set(tag, triangles.with_q[i][i]), correction, read[r]), tag, o + i * kDim);
    _Pragma("GCC unroll 4") for (int later = r + 1; later < kSolved; ++later)
        owe(triangles, first + later, i, correction, open[later], read[later]);
  }
}

/// e of every token, and o of every token for the rows from v on.
SILT_INLINE void solve(const Block& block, const Triangles& triangles, const float* products, int64_t v, float* e,
                       Vector* o) {
  for (int64_t at = 0; at < kLanes; at += kStep) {
    for (int64_t first = 0; first < kChunk; first += kSolved) {
      solve_tokens(block, triangles, products + at, first, block.v[0].values + v + at, e + at, o[0].values + v + at);
    }
  }
}

/// Keys [k, k + kRows) of the panel after the chunk.
template <int64_t kRows>
SILT_INLINE void tile_update(const Block& block, int64_t k, const float* e, float* panel) {
  Lanes state[kRows];
  SILT_EACH_ROW state[r] = multiply(load(panel + (k + r) * kLanes), broadcast(block.decay[0].values[k + r]));
  // Unrolled, its corrections would be hoisted out of the loop over keys, and out of the registers.
  _Pragma("GCC unroll 1") for (int64_t j = 0; j < kChunk; ++j) {
    const Lanes correction = load(e + j * kLanes);
    SILT_EACH_ROW state[r] = multiply_add(broadcast(block.carried[j].values[k + r]), correction, state[r]);
  }
  SILT_EACH_ROW store(panel + (k + r) * kLanes, state[r]);
}

/// Rows v to v + 15 through the chunk.
inline void run_panel(const Block& block, const Triangles& triangles, int64_t v, float* panel, Vector* o) {
  alignas(64) float products[2 * kChunk * kLanes];
  alignas(64) float e[kChunk * kLanes];
  int64_t row = 0;
  for (; row < whole_tiles(2 * kChunk); row += kTileRows) tile_products<kTileRows>(block, row, panel, products);
  for (; row < 2 * kChunk; row += kRestRows) tile_products<kRestRows>(block, row, panel, products);
  solve(block, triangles, products, v, e, o);
  int64_t k = 0;
  for (; k < whole_tiles(kDim); k += kTileRows) tile_update<kTileRows>(block, k, e, panel);
  for (; k < kDim; k += kRestRows) tile_update<kRestRows>(block, k, e, panel);
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
  Block block;
  Triangles triangles;
  for (int64_t first = 0; first + kChunk <= head.tokens(); first += kChunk) {
    front_block(head, first, block);
    make_triangles(block, triangles);
    Vector* o = member.outputs(first);
    for (int64_t v = share.begin; v < share.end; v += kPanelRows) run_panel(block, triangles, v, panels + v * kDim, o);
    if (member.sharers == 1) {
      back_block(head, first, o);
    } else {
      finish_block(head, member, first, kChunk, o);
    }
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
