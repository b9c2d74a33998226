// Addresses of kda_prefill arguments in host memory. Offsets are 64-bit before any multiply.
#pragma once

#include "kda/prefill/problem.hpp"
#include "kda/shared/reference.hpp"
#include "kda/shared/sequences.hpp"

namespace silt {

inline int64_t kda_prefill_index(const KdaPrefillArgs& args, int64_t sequence) {
  return static_cast<const int32_t*>(args.state_indices.data)[sequence];
}

/// Whether state and history of a sequence are what the memory holds; else they count as zero.
inline bool kda_prefill_known(const KdaPrefillArgs& args, int64_t sequence) {
  return !args.has_initial_state.present() || static_cast<const int32_t*>(args.has_initial_state.data)[sequence] != 0;
}

inline kda::HeadWeights kda_prefill_weights(const KdaPrefillProblem& problem, const KdaPrefillArgs& args,
                                            int64_t head) {
  const int64_t first = head * kda::kDim;
  kda::HeadWeights weights;
  weights.conv_weight = static_cast<const float*>(args.conv_weight.data) + first;
  if (problem.bias) weights.conv_bias = static_cast<const float*>(args.conv_bias.data) + first;
  weights.tap_stride = problem.p();
  weights.gate = problem.gate;
  weights.lower_bound = problem.lower_bound;
  weights.A_log = static_cast<const float*>(args.A_log.data)[head];
  weights.dt_bias = static_cast<const float*>(args.dt_bias.data) + first;
  if (problem.norm) weights.norm_weight = static_cast<const float*>(args.norm_weight.data);
  weights.norm_eps = args.norm_eps;
  return weights;
}

template <class Act>
kda::HeadToken<Act> kda_prefill_token(const KdaPrefillProblem& problem, const KdaPrefillArgs& args, int64_t row,
                                      int64_t head) {
  const int64_t first = head * kda::kDim;
  kda::HeadToken<Act> token;
  token.x = static_cast<const Act*>(args.x.data) + row * problem.x_stride + first;
  token.part_stride = problem.p();
  token.raw_gate = static_cast<const Act*>(args.raw_gate.data) + row * problem.gate_stride + first;
  token.raw_beta = static_cast<const Act*>(args.raw_beta.data) + row * problem.beta_stride + head;
  if (problem.norm) {
    token.output_gate = static_cast<const Act*>(args.output_gate.data) + row * problem.output_gate_stride + first;
  }
  return token;
}

template <class Act>
kda::HistoryView<Act> kda_prefill_history(const KdaPrefillProblem& problem, const KdaPrefillArgs& args, int64_t slot,
                                          int64_t head) {
  return {static_cast<Act*>(args.conv_state.data) + slot * problem.conv_slot_stride, problem.layout,
          kda::kParts * problem.p(), head * kda::kDim};
}

/// [128 (V), 128 (K)] of fp32 or bf16.
inline void* kda_prefill_state(const KdaPrefillProblem& problem, const KdaPrefillArgs& args, int64_t slot,
                               int64_t head) {
  const int64_t at = slot * problem.state_slot_stride + head * kda::kDim * kda::kDim;
  return static_cast<std::byte*>(args.state.data) + at * static_cast<int64_t>(size_of(problem.state));
}

template <class Act>
Act* kda_prefill_output(const KdaPrefillProblem& problem, const KdaPrefillArgs& args, int64_t row, int64_t head) {
  return static_cast<Act*>(args.output.data) + row * problem.output_stride + head * kda::kDim;
}

}  // namespace silt
