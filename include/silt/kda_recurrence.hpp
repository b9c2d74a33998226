// The gated delta rule on given q, k, v: steps 2-5 of KDA. Contract: src/kda/recurrence/contract.md.
#pragma once

#include "silt/choose.hpp"
#include "silt/tensor.hpp"

namespace silt {

/// N sequences with T tokens in all, H heads of 128. q, k, v and output may be bf16 or fp32 (q, k, v alike); raw_gate
/// and raw_beta are bf16, or fp32 on the CPU.
///
/// Per token: L2 norm of q and k, gate, decay, delta rule, readout; the state is updated in place.
///
/// Speculative verification: with `accepted`, state_indices is a table of M slots a sequence. The state is read from
/// the slot of the last accepted token, column accepted - 1, and the state after token j of this call goes to column j,
/// so that the next call can start from any of them.
struct KdaRecurrenceArgs {
  ConstTensorView q;         ///< [T, H, 128], inner contiguous, row stride free
  ConstTensorView k;         ///< as q
  ConstTensorView v;         ///< as q
  ConstTensorView raw_gate;  ///< [T, H, 128], inner contiguous, row stride free
  ConstTensorView raw_beta;  ///< [T, H], last stride 1, row stride free
  ConstTensorView A_log;     ///< fp32 [H]
  ConstTensorView dt_bias;   ///< fp32 [H, 128]
  /// int32 [N + 1], non-decreasing token offsets of the sequences, within [0, T]; absent: one token each. Checked in
  /// host memory, trusted in device memory.
  ConstTensorView offsets;
  ConstTensorView state_indices;  ///< int32 [N], or [N, M] with `accepted`; contiguous; live slots are unique
  ConstTensorView accepted;       ///< int32 [N], or absent; outside 1..M the sequence is padding
  TensorView state;               ///< fp32 or bf16 [slots, H, 128 (V), 128 (K)], inner contiguous, slot stride free
  bool safe_gate = true;
  float lower_bound = -5.0F;
  TensorView output;  ///< bf16 or fp32 [T, H, 128], inner contiguous, row stride free; overlaps no other tensor
  int32_t null_slot = 0;
};

SILT_API Status kda_recurrence(const KdaRecurrenceArgs& args, const Launch& launch = {});

}  // namespace silt
