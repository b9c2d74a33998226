// Short causal convolution with SiLU over a kept history: step 1 of KDA. Contract: src/kda/conv_update/contract.md.
#pragma once

#include "silt/choose.hpp"
#include "silt/tensor.hpp"

namespace silt {

/// B sequences of n tokens, C channels (3P for KDA), 4 taps. Activations (x, conv_state) are bf16, or fp32 on the CPU;
/// the output may be bf16 or fp32 with either.
///
/// y[t] = SiLU(bias + sum_j weight[j] * window[t + j]), window = history (3 raw inputs, oldest first) then x.
/// Afterwards the history holds the last three raw inputs, bit exact.
struct CausalConv1dUpdateArgs {
  ConstTensorView x;              ///< [B, n, C], last stride 1, batch and token strides free
  ConstTensorView weight;         ///< fp32 [3, 4, C / 3] (part, tap oldest..newest, channel), contiguous
  ConstTensorView bias;           ///< fp32 [C], or absent
  TensorView conv_state;          ///< [slots, C, 3], slot stride free, inner strides (1, C) "SD" or (3, 1) "DS"
  ConstTensorView state_indices;  ///< int32 [B], contiguous
  TensorView output;              ///< bf16 or fp32 [B, n, C], last stride 1; overlaps no other tensor
  int32_t null_slot = 0;          ///< as in KdaDecodeArgs; padding rows give zeros
};

SILT_API Status causal_conv1d_update(const CausalConv1dUpdateArgs& args, const Launch& launch = {});

}  // namespace silt
