// The state that a run of tokens works on in fp32, and outputs of a part of a head's rows, on one SIMD target.
#pragma once

#include "kda/shared/simd_steps.inl.hpp"

SILT_SIMD_BEGIN;
namespace silt::SILT_SIMD_NAMESPACE::kda_steps {

/// Rows [begin, end) of a stored state as fp32, their columns in the order that rows of `Stored` are loaded in: vectors
/// arranged for `Stored` meet them, and the sums are those of the stored rows.
template <class Stored>
SILT_INLINE void widen_rows(const Stored* stored, int64_t begin, int64_t end, float* wide) {
  for (int64_t at = begin * kDim; at < end * kDim; at += kPairColumns) {
    const Pair pair = load_pair(stored + at);
    store(wide + at, pair.first);
    store(wide + at + kLanes, pair.second);
  }
}

/// Back, with one rounding where the state is bf16.
template <class Stored>
SILT_INLINE void narrow_rows(const float* wide, int64_t begin, int64_t end, Stored* stored) {
  for (int64_t at = begin * kDim; at < end * kDim; at += kPairColumns) {
    store_pair(stored + at, Pair{load(wide + at), load(wide + at + kLanes)});
  }
}

/// A head's values [begin, end), multiples of 16, as activations: one rounding. The others are not written.
template <class Act>
SILT_INLINE void store_values(const Vector& x, int64_t begin, int64_t end, Act* to) {
  for (int64_t c = begin; c < end; c += kLanes) {
    alignas(64) Act rounded[kPairColumns];
    store_pair(rounded, pair_of_columns<Act>(load(x.values + c), zero()));
    __builtin_memcpy(to + c, rounded, kLanes * sizeof(Act));
  }
}

/// A head of a tensor of either type.
SILT_INLINE void load_head(const void* data, DType dtype, int64_t at, Vector& x) {
  if (dtype == DType::bf16) {
    for (int64_t c = 0; c < kDim; c += kLanes) store(x.values + c, load(static_cast<const bf16*>(data) + at + c));
  } else {
    for (int64_t c = 0; c < kDim; c += kLanes) store(x.values + c, load(static_cast<const float*>(data) + at + c));
  }
}

}  // namespace silt::SILT_SIMD_NAMESPACE::kda_steps
SILT_SIMD_END;
