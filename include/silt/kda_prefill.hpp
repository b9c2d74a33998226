// Kimi Delta Attention over whole sequences of a variable-length batch. Contract: src/kda/prefill/contract.md.
#pragma once

#include "silt/choose.hpp"
#include "silt/tensor.hpp"

namespace silt {

/// N sequences, T rows of memory, H heads of 128, P = H * 128. The same maths as kda_decode, token after token; the
/// output norm and gate are applied where given.
struct KdaPrefillArgs {
  ConstTensorView x;            ///< [T, 3P] packed q | k | v, last stride 1, row stride free
  ConstTensorView conv_weight;  ///< fp32 [3, 4, P]
  ConstTensorView conv_bias;    ///< fp32 [3P], or absent
  TensorView conv_state;        ///< [slots, 3P, 3], slot stride free, inner strides (1, 3P) "SD" or (3, 1) "DS"
  ConstTensorView raw_gate;     ///< [T, H, 128], inner contiguous, row stride free
  ConstTensorView raw_beta;     ///< [T, H], last stride 1, row stride free
  ConstTensorView A_log;        ///< fp32 [H]
  ConstTensorView dt_bias;      ///< fp32 [H, 128]
  /// int32 [N + 1], non-decreasing, within [0, T]; rows outside them are neither read nor written. Checked in host
  /// memory, trusted in device memory.
  ConstTensorView offsets;
  ConstTensorView state_indices;      ///< int32 [N]; live slots are unique
  ConstTensorView has_initial_state;  ///< int32 [N], or absent (all true); 0: memory is ignored and taken as zero
  TensorView state;                   ///< fp32 or bf16 [slots, H, 128 (V), 128 (K)], inner contiguous, slot stride free
  bool safe_gate = true;
  float lower_bound = -5.0F;
  ConstTensorView output_gate;  ///< [T, H, 128] with norm_weight, or both absent
  ConstTensorView norm_weight;  ///< fp32 [128]
  float norm_eps = 1e-5F;
  TensorView output;      ///< [T, H, 128], inner contiguous, row stride free; overlaps no other tensor
  int32_t null_slot = 0;  ///< sequences with a padding index give zeros and touch no slot
};

SILT_API Status kda_prefill(const KdaPrefillArgs& args, const Launch& launch = {});

}  // namespace silt
