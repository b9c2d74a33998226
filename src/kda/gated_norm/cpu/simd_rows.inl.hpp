// What: rms_norm_gated (contract.md) on one SIMD target.
//
// When: every checked problem; any strides, alignment to the element.
//
// Plan: tasks are (row, head), in contiguous ranges over the workers: one pass for the sum of squares, one for the
// result; a head of 128 stays in L1 between them.
//
// Bytes: x, gate and output once (cost.cpp).
//
// Rounding: fp32, one rounding at the output; the sum by a fixed tree, so that a head's bits depend on nothing but the
// head.
#pragma once

#include "core/workers.hpp"
#include "kda/gated_norm/reference.hpp"
#include "kda/shared/simd_steps.inl.hpp"

SILT_SIMD_BEGIN;
namespace silt::SILT_SIMD_NAMESPACE::gated_norm_rows {

/// Below this many heads (about 10 us) the caller works alone.
constexpr int64_t kHeadsAlone = 96;

using kda_steps::kDim;

template <class In, class GateAct, class Out>
void run_heads(const RmsNormGatedProblem& p, const RmsNormGatedArgs& args, int64_t begin, int64_t end) {
  const In* x = static_cast<const In*>(args.x.data);
  const GateAct* gate = static_cast<const GateAct*>(args.gate.data);
  Out* output = static_cast<Out*>(args.output.data);
  for (int64_t task = begin; task < end; ++task) {
    const int64_t row = task / p.h;
    const int64_t head = task % p.h;
    const In* from = x + rms_norm_gated_at(p.x_stride, row, head);
    kda_steps::Vector value;
    for (int64_t c = 0; c < kDim; c += kLanes) store(value.values + c, load(from + c));
    kda_steps::gated_norm(value, gate + rms_norm_gated_at(p.gate_stride, row, head),
                          static_cast<const float*>(args.weight.data), args.eps, p.activation,
                          output + rms_norm_gated_at(p.output_stride, row, head));
  }
}

template <class In, class GateAct, class Out>
void run(const RmsNormGatedProblem& p, const RmsNormGatedArgs& args, int threads) {
  if (p.t * p.h < kHeadsAlone) threads = 1;
  parallel_ranges(p.t * p.h, threads,
                  [&](int64_t begin, int64_t end) { run_heads<In, GateAct, Out>(p, args, begin, end); });
}

template <class In, class GateAct>
void run_to(const RmsNormGatedProblem& problem, const RmsNormGatedArgs& args, int threads) {
  (problem.output == DType::bf16 ? run<In, GateAct, bf16> : run<In, GateAct, float>)(problem, args, threads);
}

inline Status launch(const RmsNormGatedProblem& problem, const RmsNormGatedArgs& args, const Launch& launch) {
  if (problem.x == DType::bf16) {
    (problem.gate == DType::bf16 ? run_to<bf16, bf16> : run_to<bf16, float>)(problem, args, launch.threads);
  } else {
    (problem.gate == DType::bf16 ? run_to<float, bf16> : run_to<float, float>)(problem, args, launch.threads);
  }
  return {};
}

}  // namespace silt::SILT_SIMD_NAMESPACE::gated_norm_rows
SILT_SIMD_END;
