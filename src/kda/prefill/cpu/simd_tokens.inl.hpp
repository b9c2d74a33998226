// What: kda_prefill (contract.md) on one SIMD target, token after token.
//
// When: every checked problem; any strides, alignment to the element, SD and DS histories, fp32 and bf16 states and
// activations.
//
// Plan: tasks are (sequence, head) over the workers, their 128 rows shared out where tasks are fewer than workers
// (simd_sequences.inl.hpp). A task takes its tokens one after the other: the front, the delta rule and the back of
// kda_decode.
//
// Data path: inputs straight from x, the first three from a copy of the history, which one owner writes at the end. 64
// KiB of state stay in L2 from token to token: fp32 in place, bf16 widened once into the worker's stack and rounded
// once at the end. The next task's state is prefetched into L2 under the last token of this one, where the states do
// not fit there anyway.
//
// Bytes: state and history once each way, x, gates and output once (cost.cpp). The 64 KiB that each token reads and
// writes in L2 bound it, not memory.
//
// Rounding: fp32 throughout, one rounding at the output and at a bf16 state. Sums by one fixed tree: the bits of a
// sequence depend on the sequence alone, not on the thread count, the split, the batch or the target, and with an fp32
// state not on how it is cut into calls. A sequence of one token has the bits of kda_decode.
#pragma once

#include "kda/prefill/cpu/simd_sequences.inl.hpp"

SILT_SIMD_BEGIN;
namespace silt::SILT_SIMD_NAMESPACE::prefill {

struct TokenLoop {
  template <class Act, class Stored>
  static void run(const Head<Act, Stored>& head, const Member& member, const Stored* next) {
    run_tokens(head, member, next);
  }
};

}  // namespace silt::SILT_SIMD_NAMESPACE::prefill
SILT_SIMD_END;
