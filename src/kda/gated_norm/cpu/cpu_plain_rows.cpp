// What: rms_norm_gated (contract.md) in portable C++ that compilers vectorise.
//
// When: every checked problem on any CPU.
//
// Plan: tasks are (row, head), in contiguous ranges over the workers: one pass for the sum of squares, one for the
// result; a head of 128 stays in L1 between them.
//
// Bytes: x, gate and output once (cost.cpp).
//
// Rounding: fp32, one rounding at the output; the sum by a fixed tree (cpu_steps.hpp), so that a head's bits depend on
// nothing but the head.
#include "kda/gated_norm/cpu/cpu_plain_rows.hpp"

#include "core/workers.hpp"
#include "kda/gated_norm/reference.hpp"
#include "kda/shared/cpu_steps.hpp"

namespace silt::rms_norm_gated_cpu_plain_rows {
namespace {

template <class In, class GateAct, class Out>
void run(const RmsNormGatedProblem& p, const RmsNormGatedArgs& args, int threads) {
  const In* x = static_cast<const In*>(args.x.data);
  const GateAct* gate = static_cast<const GateAct*>(args.gate.data);
  const float* weight = static_cast<const float*>(args.weight.data);
  Out* output = static_cast<Out*>(args.output.data);
  parallel_ranges(p.t * p.h, threads, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t row = task / p.h;
      const int64_t head = task % p.h;
      kda::cpu::gated_norm(x + rms_norm_gated_at(p.x_stride, row, head),
                           gate + rms_norm_gated_at(p.gate_stride, row, head), weight, args.eps, p.activation,
                           output + rms_norm_gated_at(p.output_stride, row, head));
    }
  });
}

template <class In, class GateAct>
void run_to(const RmsNormGatedProblem& problem, const RmsNormGatedArgs& args, int threads) {
  (problem.output == DType::bf16 ? run<In, GateAct, bf16> : run<In, GateAct, float>)(problem, args, threads);
}

}  // namespace

Status launch(const RmsNormGatedProblem& problem, const RmsNormGatedArgs& args, const Launch& launch) {
  if (problem.x == DType::bf16) {
    (problem.gate == DType::bf16 ? run_to<bf16, bf16> : run_to<bf16, float>)(problem, args, launch.threads);
  } else {
    (problem.gate == DType::bf16 ? run_to<float, bf16> : run_to<float, float>)(problem, args, launch.threads);
  }
  return {};
}

}  // namespace silt::rms_norm_gated_cpu_plain_rows
