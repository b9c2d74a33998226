// Attention Residuals in two phases, for calls that share a bank: the bank part of up to eight calls in one sweep, then
// a merge per call. Contract: src/attn_res/two_phase/contract.md.
//
// Together they compute what attn_res computes (silt/attn_res.hpp), up to the order of fp32 sums and the rounding of
// the partials.
#pragma once

#include "silt/choose.hpp"
#include "silt/device.hpp"
#include "silt/tensor.hpp"

namespace silt {

constexpr int64_t kAttnResMostQueries = 8;

/// Phase 1. T tokens, D hidden size, R bank slots, Q queries (pairs of weights, one per later call). Activations
/// (blocks) are bf16, or fp32 on the CPU.
///
/// Per token and query: logit_i = sum(v_i * norm_weight * qk_weight) * rsqrt(mean(v_i^2) + eps) for the sources v_i =
/// blocks[0..num_blocks); statistics = (m, s) with m = the largest logit and s = sum(exp(logit_i - m)); mix =
/// sum(exp(logit_i - m) * v_i), not divided by s.
struct AttnResPartialsArgs {
  ConstTensorView blocks;       ///< [T, R, D], last stride 1, token and slot strides free
  ConstTensorView norm_weight;  ///< bf16 [Q, D], last stride 1, row stride >= D; Q is 1..kAttnResMostQueries
  ConstTensorView qk_weight;    ///< bf16 [Q, D], as norm_weight
  int64_t num_blocks = 0;       ///< valid slots, 1..R; slots behind them are never read
  float eps = 1e-5F;            ///< finite, >= 0
  TensorView statistics;        ///< fp32 [Q, T, 2], last stride 1, query and token strides free: m, s
  TensorView mix;  ///< [Q, T, D] bf16 or fp32 (fp32 where blocks are fp32), last stride 1, other strides free
  /// With Pdl::late: how many leading slots the directly preceding kernel does not write. -1: num_blocks, less the slot
  /// that a decoder wrote last (num_blocks - 1).
  int64_t stable_blocks = -1;
};

/// Phase 2, one call of one query. Activations (prefix, delta, slot, output) are bf16, or all fp32 on the CPU.
///
/// Per token: p = prefix + delta, rounded and stored back; slot = p; l = sum(p * norm_weight * qk_weight) *
/// rsqrt(mean(p^2) + eps); n = max(m, l); output = (exp(m - n) * mix + exp(l - n) * p) / (exp(m - n) * s + exp(l - n)),
/// then optionally RMS-normalised with output_norm_weight. One rounding.
struct AttnResMergeArgs {
  TensorView prefix;           ///< [T, D], last stride 1, row stride >= D; read and, with delta, written
  ConstTensorView delta;       ///< [T, D] as prefix, or absent
  ConstTensorView statistics;  ///< fp32 [T, 2], last stride 1, token stride free: m and s of this query
  ConstTensorView
      mix;          ///< [T, D] of this query, bf16 or fp32 (fp32 where prefix is fp32), last stride 1, row stride free
  TensorView slot;  ///< [T, D] of a bank, last stride 1, row stride >= D: p is written there as well; or absent
  ConstTensorView norm_weight;         ///< bf16 [D], contiguous: of this query
  ConstTensorView qk_weight;           ///< bf16 [D], contiguous: of this query
  ConstTensorView output_norm_weight;  ///< bf16 [D], contiguous, or absent
  float eps = 1e-5F;                   ///< finite, >= 0
  float output_norm_eps = 1e-5F;       ///< finite, >= 0
  TensorView output;                   ///< [T, D], last stride 1, row stride >= D; overlaps no other tensor
  /// With Pdl::late: the directly preceding kernel writes neither statistics nor mix, so that they may be read early.
  bool stable_partials = false;
};

/// T = 0 does nothing. Errors name the argument, what it has and what it needs; nothing has been written then.
SILT_API Status attn_res_partials(const AttnResPartialsArgs& args, const Launch& launch = {});
SILT_API Status attn_res_merge(const AttnResMergeArgs& args, const Launch& launch = {});

/// Whether a sweep for `queries` calls and a merge for each are expected to take less time than as many calls of
/// attn_res: the cost model of the contract ("When it pays"). True only where both phases have native kernels for the
/// dense form of this shape (t tokens, d hidden size, num_blocks sources, partials of this dtype).
SILT_API bool attn_res_two_phase_pays(int64_t t, int64_t d, int64_t num_blocks, int64_t queries, DType partial,
                                      const DeviceFacts& facts);

}  // namespace silt
