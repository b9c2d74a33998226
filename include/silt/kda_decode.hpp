// Kimi Delta Attention, one token per sequence, fused. Contract: src/kda/decode/contract.md.
#pragma once

#include "silt/choose.hpp"
#include "silt/tensor.hpp"

namespace silt {

/// B rows (sequences), H heads of 128, P = H * 128. Activations (x, conv_state, raw_gate, raw_beta, output_gate,
/// output) are bf16, or all fp32 on the CPU.
///
/// Short convolution and SiLU on q, k, v; history shift; L2 norm of q and k; gate; gated delta rule; optionally RMS
/// norm with a sigmoid output gate (arXiv 2510.26692). Maths in fp32; state and history are updated in place.
struct KdaDecodeArgs {
  ConstTensorView x;              ///< [B, 3P] packed q | k | v, last stride 1, row stride free
  ConstTensorView conv_weight;    ///< fp32 [3, 4, P] (part, tap oldest..newest, channel), contiguous
  ConstTensorView conv_bias;      ///< fp32 [3P], or absent
  TensorView conv_state;          ///< [slots, 3P, 3], slot stride free, inner strides (1, 3P) "SD" or (3, 1) "DS"
  ConstTensorView raw_gate;       ///< [B, H, 128], inner contiguous, row stride free
  ConstTensorView raw_beta;       ///< [B, H], last stride 1, row stride free
  ConstTensorView A_log;          ///< fp32 [H], contiguous
  ConstTensorView dt_bias;        ///< fp32 [H, 128], contiguous
  ConstTensorView state_indices;  ///< int32 [B], contiguous, read on the device at every launch; live slots are unique
  TensorView state;               ///< fp32 or bf16 [slots, H, 128 (V), 128 (K)], inner contiguous, slot stride free
  bool safe_gate = true;          ///< true: log decay = lower_bound * sigmoid(a * g); false: -a * softplus(g)
  float lower_bound = -5.0F;      ///< [-5, 0); read where safe_gate
  ConstTensorView output_gate;    ///< [B, H, 128], inner contiguous, row stride free; with norm_weight or both absent
  ConstTensorView norm_weight;    ///< fp32 [128], contiguous
  float norm_eps = 1e-5F;         ///< finite, >= 0
  TensorView output;              ///< [B, H, 128], inner contiguous, row stride free; overlaps no other tensor
  int32_t null_slot = 0;  ///< 0: rows with index <= 0 are padding; -1: rows with index < 0 are. Padding rows give zeros
};

/// B = 0 does nothing. An index >= slots counts as padding. Errors name the argument, what it has and what it needs.
SILT_API Status kda_decode(const KdaDecodeArgs& args, const Launch& launch = {});

}  // namespace silt
