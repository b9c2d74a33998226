// What: kda_prefill (contract.md) in portable C++ that compilers vectorise.
//
// When: every checked problem on any CPU.
//
// Plan: tasks are (sequence, head), in contiguous ranges over the workers. A task takes its tokens one after the other:
// convolve, gate, one pass over the state, output norm. With few long sequences the heads are the parallelism.
//
// Data path: the task copies the history of its 3 x 128 channels out, reads later taps straight from x, and writes the
// final history: one owner per channel. The 64 KiB of state stay in L1 and L2 from token to token; a bf16 state is
// widened once, into the worker's stack, and rounded once at the end.
//
// Bytes: state and history once each way, x, gates and output once (cost.cpp). Arithmetic bounds it, not memory.
//
// Rounding: fp32 throughout, one rounding at the output and at a bf16 state. Sums by a fixed tree (cpu_steps.hpp): the
// bits of a sequence depend on nothing but the sequence, and with an fp32 state not on how it is cut into calls.
#include "kda/prefill/cpu/cpu_plain_rows.hpp"

#include "core/workers.hpp"
#include "kda/prefill/rows.hpp"
#include "kda/shared/cpu_conv.hpp"
#include "kda/shared/cpu_state.hpp"

namespace silt::kda_prefill_cpu_plain_rows {
namespace {

using kda::kDim;

/// Convolution `part` of one token.
template <class Act>
void convolve_part(const kda::HeadWeights& weights, const kda::cpu::ConvInputs<Act>& inputs, int64_t part,
                   int64_t token, kda::cpu::Vector& z) {
  kda::cpu::Taps<Act> taps;
  inputs.taps(token, taps);
  kda::cpu::convolve(weights.conv_weight + part * kda::kTaps * weights.tap_stride, weights.tap_stride,
                     weights.conv_bias == nullptr ? nullptr : weights.conv_bias + part * weights.tap_stride, taps, kDim,
                     z);
}

/// Everything of a token behind its convolutions.
template <class Act>
void finish_token(const kda::HeadWeights& weights, const kda::HeadToken<Act>& token, kda::cpu::Step& step, float* state,
                  Act* output) {
  kda::cpu::widen(token.raw_gate, step.decay);
  kda::cpu::decay_factors(weights, step.decay, step.decay);
  step.beta = kda::cpu::beta_of(to_float(*token.raw_beta));
  kda::cpu::fold(step);
  kda::cpu::Vector o;
  kda::cpu::delta_rule(step, state, o);
  if (weights.norm_weight != nullptr) {
    kda::cpu::gated_norm(o.values, token.output_gate, weights.norm_weight, weights.norm_eps, GateActivation::sigmoid,
                         output);
  } else {
    kda::cpu::narrow(o, kDim, output);
  }
}

template <class Act>
void run_head(const KdaPrefillProblem& p, const KdaPrefillArgs& args, int64_t sequence, int64_t head) {
  const kda::Rows rows = kda::rows_of(args.offsets, sequence);
  if (rows.count() == 0) return;
  const int64_t slot = kda_prefill_index(args, sequence);
  if (kda::is_padding(slot, p.null_slot, p.slots)) {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      std::fill_n(kda_prefill_output<Act>(p, args, row, head), kDim, Act{});
    }
    return;
  }
  const bool known = kda_prefill_known(args, sequence);
  const kda::HeadWeights weights = kda_prefill_weights(p, args, head);
  const kda::HistoryView<Act> history = kda_prefill_history<Act>(p, args, slot, head);
  const kda::HeadToken<Act> first = kda_prefill_token<Act>(p, args, rows.begin, head);
  const auto inputs = [&](int64_t part) {
    return kda::cpu::ConvInputs<Act>(history, part, kDim, first.x + part * first.part_stride, p.x_stride, known);
  };
  const kda::cpu::ConvInputs<Act> q = inputs(0);
  const kda::cpu::ConvInputs<Act> k = inputs(1);
  const kda::cpu::ConvInputs<Act> v = inputs(2);
  kda::cpu::WorkingState state(kda_prefill_state(p, args, slot, head), p.state, known);
  kda::cpu::Step step;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const int64_t token = row - rows.begin;
    convolve_part(weights, q, 0, token, step.q);
    convolve_part(weights, k, 1, token, step.k);
    convolve_part(weights, v, 2, token, step.v);
    finish_token(weights, kda_prefill_token<Act>(p, args, row, head), step, state.data(),
                 kda_prefill_output<Act>(p, args, row, head));
  }
  state.store();
  for (const auto* part : {&q, &k, &v}) part->store_history(rows.count());
}

template <class Act>
void run(const KdaPrefillProblem& p, const KdaPrefillArgs& args, int threads) {
  parallel_ranges(p.n * p.h, threads, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) run_head<Act>(p, args, task / p.h, task % p.h);
  });
}

}  // namespace

Status launch(const KdaPrefillProblem& problem, const KdaPrefillArgs& args, const Launch& launch) {
  if (problem.dtype == DType::bf16) {
    run<bf16>(problem, args, launch.threads);
  } else {
    run<float>(problem, args, launch.threads);
  }
  return {};
}

}  // namespace silt::kda_prefill_cpu_plain_rows
