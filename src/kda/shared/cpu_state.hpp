// The state that a run of tokens works on in fp32.
#pragma once

#include <algorithm>

#include "kda/shared/cpu_steps.hpp"

namespace silt::kda::SILT_KDA_CPU {

/// A head's stored state: itself where it is fp32, or a widened copy that is rounded once at the end. 64 KiB of stack.
class WorkingState {
 public:
  /// With `known` false the memory counts as zero and is not read.
  WorkingState(void* stored, DType dtype, bool known) : stored_(stored), dtype_(dtype) {
    for (int64_t v = 0; v < kDim; ++v) {
      if (dtype == DType::bf16 && known) {
        widen(static_cast<const bf16*>(stored) + v * kDim, wide_[v]);
      } else if (!known) {
        std::fill_n(dtype == DType::bf16 ? wide_[v].values : static_cast<float*>(stored) + v * kDim, kDim, 0.0F);
      }
    }
  }

  float* data() { return dtype_ == DType::bf16 ? wide_[0].values : static_cast<float*>(stored_); }

  void store() const {
    if (dtype_ != DType::bf16) return;
    for (int64_t v = 0; v < kDim; ++v) narrow(wide_[v], kDim, static_cast<bf16*>(stored_) + v * kDim);
  }

 private:
  void* stored_;
  DType dtype_;
  Vector wide_[kDim];
};

}  // namespace silt::kda::SILT_KDA_CPU
