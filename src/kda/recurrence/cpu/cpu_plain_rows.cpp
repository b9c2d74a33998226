// What: kda_recurrence (contract.md) in portable C++ that compilers vectorise.
//
// When: every checked problem on any CPU.
//
// Plan: tasks are (sequence, head), in contiguous ranges over the workers. A task takes its tokens one after the other
// on one state; with few long sequences the heads are the parallelism.
//
// Data path: the 64 KiB of a head's state stay in L1 and L2 from token to token; a bf16 state is widened once, into the
// worker's stack, and rounded once at the end. With a table of slots every state is a copy from that stack.
//
// Bytes: the state once each way, q, k, v, gates and output once (cost.cpp).
//
// Rounding: fp32 throughout, one rounding at the output and at a bf16 state. Sums by a fixed tree (cpu_steps.hpp): the
// bits of a sequence depend on nothing but the sequence.
#include "kda/recurrence/cpu/cpu_plain_rows.hpp"

#include "core/workers.hpp"
#include "kda/recurrence/reference.hpp"
#include "kda/shared/cpu_state.hpp"
#include "kda/shared/sequences.hpp"

namespace silt::kda_recurrence_cpu_plain_rows {
namespace {

float one(const ConstTensorView& tensor, int64_t at) {
  return tensor.dtype == DType::bf16 ? to_float(static_cast<const bf16*>(tensor.data)[at])
                                     : static_cast<const float*>(tensor.data)[at];
}

void run_token(const KdaRecurrenceProblem& p, const KdaRecurrenceArgs& args, const kda::HeadWeights& weights,
               int64_t row, int64_t head, float* state) {
  const int64_t first = head * kda::kDim;
  kda::cpu::Step step;
  kda::cpu::widen(args.q.data, p.qkv, row * p.q_stride + first, step.q);
  kda::cpu::widen(args.k.data, p.qkv, row * p.k_stride + first, step.k);
  kda::cpu::widen(args.v.data, p.qkv, row * p.v_stride + first, step.v);
  kda::cpu::widen(args.raw_gate.data, p.dtype, row * p.gate_stride + first, step.decay);
  kda::cpu::decay_factors(weights, step.decay, step.decay);
  step.beta = kda::cpu::beta_of(one(args.raw_beta, row * p.beta_stride + head));
  kda::cpu::fold(step);
  kda::cpu::Vector o;
  kda::cpu::delta_rule(step, state, o);
  kda::cpu::narrow(o, args.output.data, p.output, row * p.output_stride + first);
}

/// The slot that is read is not the one that is written, so the state is worked on apart: 64 KiB of stack.
void run_with_table(const KdaRecurrenceProblem& p, const KdaRecurrenceArgs& args, const kda::HeadWeights& weights,
                    int64_t sequence, int64_t head) {
  kda::cpu::Vector state[kda::kDim];
  const void* from = kda_recurrence_state(p, args, kda_recurrence_index(args, sequence), head);
  for (int64_t v = 0; v < kda::kDim; ++v) kda::cpu::widen(from, p.state, v * kda::kDim, state[v]);
  const kda::Rows rows = kda::rows_of(args.offsets, sequence);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    run_token(p, args, weights, row, head, state[0].values);
    const int64_t target = kda_recurrence_target(args, sequence, row - rows.begin);
    if (kda::is_padding(target, p.null_slot, p.slots)) continue;
    void* to = kda_recurrence_state(p, args, target, head);
    for (int64_t v = 0; v < kda::kDim; ++v) kda::cpu::narrow(state[v], to, p.state, v * kda::kDim);
  }
}

void run_head(const KdaRecurrenceProblem& p, const KdaRecurrenceArgs& args, int64_t sequence, int64_t head) {
  const kda::Rows rows = kda::rows_of(args.offsets, sequence);
  if (rows.count() == 0) return;
  const int64_t slot = kda_recurrence_index(args, sequence);
  if (kda::is_padding(slot, p.null_slot, p.slots)) {
    const kda::cpu::Vector zero{};
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      kda::cpu::narrow(zero, args.output.data, p.output, row * p.output_stride + head * kda::kDim);
    }
    return;
  }
  const kda::HeadWeights weights = kda_recurrence_weights(p, args, head);
  if (p.columns > 0) {
    run_with_table(p, args, weights, sequence, head);
    return;
  }
  kda::cpu::WorkingState state(kda_recurrence_state(p, args, slot, head), p.state, true);
  for (int64_t row = rows.begin; row < rows.end; ++row) run_token(p, args, weights, row, head, state.data());
  state.store();
}

}  // namespace

Status launch(const KdaRecurrenceProblem& problem, const KdaRecurrenceArgs& args, const Launch& launch) {
  parallel_ranges(problem.n * problem.h, launch.threads, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) run_head(problem, args, task / problem.h, task % problem.h);
  });
  return {};
}

}  // namespace silt::kda_recurrence_cpu_plain_rows
