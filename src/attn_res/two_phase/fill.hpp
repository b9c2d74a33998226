// How the cases of both phases are filled.
#pragma once

#include <algorithm>
#include <cmath>

#include "proof/case_tensor.hpp"
#include "proof/random.hpp"

namespace silt::attn_res_fill {

constexpr float kActivationRange = 1.5F;

/// By how many elements a tensor starts off a 16-byte boundary, so that its alignment is `align` bytes (or that of an
/// element, which is the least).
inline int64_t shift(DType dtype, int64_t align) {
  return align < 16 ? std::max<int64_t>(1, align / static_cast<int64_t>(size_of(dtype))) : 0;
}

inline void uniform(CaseTensor& tensor, Random& random, float low, float high) {
  if (tensor.present()) tensor.fill([&](int64_t) { return random.uniform(low, high); });
}

/// Norm and query weights that give logits with a standard deviation near 1.7, so that every source matters.
inline void weights(CaseTensor& norm_weight, CaseTensor& qk_weight, int64_t d, Random& random) {
  uniform(norm_weight, random, 0.7F, 1.3F);
  const float qk = 3.0F / std::sqrt(static_cast<float>(d));
  uniform(qk_weight, random, -qk, qk);
}

}  // namespace silt::attn_res_fill
