// RMS norm with a gate: step 6 of KDA. Contract: src/kda/gated_norm/contract.md.
#pragma once

#include "silt/choose.hpp"
#include "silt/tensor.hpp"

namespace silt {

enum class GateActivation : int32_t { sigmoid = 0, silu = 1 };

/// y = x * rsqrt(mean(x^2) + eps) * weight * act(gate) over the last axis of 128. KDA gates with sigmoid, GDN with
/// SiLU.
struct RmsNormGatedArgs {
  ConstTensorView x;       ///< bf16 or fp32 [T, H, 128], inner contiguous, row stride free
  ConstTensorView gate;    ///< bf16, or fp32 on the CPU; [T, H, 128], inner contiguous, row stride free
  ConstTensorView weight;  ///< fp32 [128]
  float eps = 1e-5F;       ///< finite, >= 0
  GateActivation activation = GateActivation::sigmoid;
  TensorView output;  ///< bf16 or fp32 [T, H, 128], inner contiguous, row stride free; overlaps no other tensor
};

SILT_API Status rms_norm_gated(const RmsNormGatedArgs& args, const Launch& launch = {});

}  // namespace silt
