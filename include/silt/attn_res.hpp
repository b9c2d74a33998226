// Attention Residuals: softmax attention over the depth of the network. Contract: src/attn_res/contract.md.
#pragma once

#include "silt/choose.hpp"
#include "silt/tensor.hpp"

namespace silt {

/// T tokens, D hidden size, R bank slots. Activations (prefix, delta, blocks, output) are bf16, or all fp32 on the CPU.
///
/// Per token: p = prefix + delta, rounded and stored back; blocks[block_write_idx] = p; sources are
/// blocks[0..num_blocks) and p; logit = sum(v * norm_weight * qk_weight) * rsqrt(mean(v^2) + eps); output =
/// softmax-weighted sum of the raw sources, then optionally RMS-normalised with output_norm_weight. Maths in fp32
/// (arXiv 2603.15031).
struct AttnResArgs {
  TensorView prefix;            ///< [T, D], last stride 1, row stride >= D; read and, with delta, written
  ConstTensorView delta;        ///< [T, D] as prefix, or absent
  TensorView blocks;            ///< [T, R, D], last stride 1, token and slot strides free; may be absent where unused
  ConstTensorView norm_weight;  ///< bf16 [D], contiguous; this and qk_weight may be absent where num_blocks is 0
  ConstTensorView qk_weight;    ///< bf16 [D], contiguous
  ConstTensorView output_norm_weight;  ///< bf16 [D], contiguous, or absent
  int64_t num_blocks = 0;              ///< valid slots, 0..R; slots behind them are never read
  int64_t block_write_idx = -1;        ///< -1: no write; else num_blocks..R-1
  float eps = 1e-5F;                   ///< finite, >= 0
  float output_norm_eps = 1e-5F;       ///< finite, >= 0
  TensorView output;                   ///< [T, D], last stride 1, row stride >= D; overlaps no other tensor
  /// With Pdl::late: how many leading slots the directly preceding kernel does not write. -1: num_blocks, less the slot
  /// that a decoder wrote last (num_blocks - 1).
  int64_t stable_blocks = -1;
};

/// T = 0 does nothing. Errors name the argument, what it has and what it needs; nothing has been written then.
SILT_API Status attn_res(const AttnResArgs& args, const Launch& launch = {});

}  // namespace silt
