// What: kda_decode (contract.md) in portable C++ that compilers vectorise.
//
// When: every checked problem on any CPU.
//
// Plan: tasks are (row, head), in contiguous ranges over the workers. A task convolves its 3 x 128 channels and shifts
// their history, makes gate and vectors, goes over the 128 rows of its state once and finishes with the output norm.
//
// Data path: a history is read and shifted by the one task that owns its channels. The state is read and written once:
// a row of 128 is loaded for prediction and readout together (both reductions in flight) and found in L1 by the update.
// Literal order, prediction then readout of the new row, needs a third pass over the row and two reductions in series.
//
// Bytes: per task 131,072 of fp32 state (65,536 bf16) and about 6 KB of everything else (cost.cpp).
//
// Rounding: fp32 throughout, one rounding at the output and at a bf16 state. Sums by a fixed tree (cpu_steps.hpp): the
// bits of a task depend on nothing but the task.
#include "kda/decode/cpu/cpu_plain_rows.hpp"

#include <algorithm>

#include "core/workers.hpp"
#include "kda/decode/rows.hpp"
#include "kda/shared/cpu_conv.hpp"

namespace silt::kda_decode_cpu_plain_rows {
namespace {

using kda::kDim;

/// One part's convolution; its history moves on by a step.
template <class Act>
void convolve_part(const kda::HeadWeights& weights, const kda::HistoryView<Act>& history, int64_t part, const Act* x,
                   kda::cpu::Vector& z) {
  const kda::cpu::ConvInputs<Act> inputs(history, part, kDim, x, 0, true);
  kda::cpu::Taps<Act> taps;
  inputs.taps(0, taps);
  kda::cpu::convolve(weights.conv_weight + part * kda::kTaps * weights.tap_stride, weights.tap_stride,
                     weights.conv_bias == nullptr ? nullptr : weights.conv_bias + part * weights.tap_stride, taps, kDim,
                     z);
  inputs.store_history(1);
}

template <class Act, class Stored>
void run_head(const KdaDecodeProblem& problem, const KdaDecodeArgs& args, int64_t row, int64_t head) {
  Act* output = kda_decode_output<Act>(problem, args, row, head);
  const int64_t slot = kda_decode_index(args, row);
  if (kda::is_padding(slot, problem.null_slot, problem.slots)) {
    std::fill_n(output, kDim, Act{});
    return;
  }
  const kda::HeadWeights weights = kda_decode_weights(problem, args, head);
  const kda::HeadToken<Act> token = kda_decode_token<Act>(problem, args, row, head);
  const kda::HistoryView<Act> history = kda_decode_history<Act>(problem, args, slot, head);

  kda::cpu::Step step;
  kda::cpu::Vector* parts[] = {&step.q, &step.k, &step.v};
  for (int64_t part = 0; part < kda::kParts; ++part) {
    convolve_part(weights, history, part, token.x + part * token.part_stride, *parts[part]);
  }
  kda::cpu::widen(token.raw_gate, step.decay);
  kda::cpu::decay_factors(weights, step.decay, step.decay);
  step.beta = kda::cpu::beta_of(to_float(*token.raw_beta));
  kda::cpu::fold(step);

  kda::cpu::Vector o;
  kda::cpu::delta_rule(step, static_cast<Stored*>(kda_decode_state(problem, args, slot, head)), o);
  if (problem.norm) {
    kda::cpu::gated_norm(o.values, token.output_gate, weights.norm_weight, weights.norm_eps, GateActivation::sigmoid,
                         output);
  } else {
    kda::cpu::narrow(o, kDim, output);
  }
}

template <class Act, class Stored>
void run(const KdaDecodeProblem& problem, const KdaDecodeArgs& args, int threads) {
  parallel_ranges(problem.b * problem.h, threads, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      run_head<Act, Stored>(problem, args, task / problem.h, task % problem.h);
    }
  });
}

}  // namespace

Status launch(const KdaDecodeProblem& problem, const KdaDecodeArgs& args, const Launch& launch) {
  const bool halves = problem.dtype == DType::bf16;
  if (problem.state == DType::bf16) {
    (halves ? run<bf16, bf16> : run<float, bf16>)(problem, args, launch.threads);
  } else {
    (halves ? run<bf16, float> : run<float, float>)(problem, args, launch.threads);
  }
  return {};
}

}  // namespace silt::kda_decode_cpu_plain_rows
