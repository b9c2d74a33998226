// What: kda_recurrence (contract.md) on one SIMD target.
//
// When: every checked problem; any strides, alignment to the element, fp32 and bf16 everywhere, tables of slots.
//
// Plan: a task is a (sequence, head), tasks in contiguous ranges over the workers. A task takes its tokens one after
// the other on one state. With fewer tasks than workers the 128 rows of a task's state are shared out: a row of the
// state and its output depend on no other row, so that the sharers prepare every token for themselves and never meet.
//
// Data path: 64 KiB of state stay in L1 and L2 from token to token. An fp32 state without a table, and a bf16 state of
// one token, are updated in place; others are widened into the worker's stack and rounded once at the end, or per token
// where a table says so. The next task's state is prefetched into L2 under the last token of this one.
//
// Bytes: the state once each way, q, k, v, gates and output once (cost.cpp).
//
// Rounding: fp32 throughout, one rounding at the output and at a bf16 state. Sums by one fixed tree: the bits of a
// sequence depend on the sequence alone, not on the thread count, the split, the batch or the target.
#pragma once

#include <algorithm>

#include "core/workers.hpp"
#include "device/facts.hpp"
#include "kda/recurrence/reference.hpp"
#include "kda/shared/sequences.hpp"
#include "kda/shared/simd_state.inl.hpp"

SILT_SIMD_BEGIN;
namespace silt::SILT_SIMD_NAMESPACE::recurrence_heads {

using kda_steps::kDim;

/// Below this many bytes of state met by tokens (four heads of one token) the caller works alone.
constexpr int64_t kBytesAlone = 256 << 10;
/// Tasks between the one at work and the one whose inputs are asked for.
constexpr int64_t kInputsAhead = 2;
/// Below 16 rows a share is all preparation.
constexpr int64_t kMostSharers = 8;

/// Rows [begin, end) of one task.
struct Share {
  int64_t sequence;
  int64_t head;
  int64_t begin;
  int64_t end;
};

template <class Stored>
struct Call {
  const KdaRecurrenceProblem& p;
  const KdaRecurrenceArgs& args;
  int64_t sharers = 1;
  bool look_ahead = false;

  [[nodiscard]] Share share(int64_t unit) const {
    const int64_t task = unit / sharers;
    const int64_t blocks = kDim / kda_steps::kBlockRows;
    const auto first = [&](int64_t self) { return blocks * self / sharers * kda_steps::kBlockRows; };
    return {task / p.h, task % p.h, first(unit % sharers), first(unit % sharers + 1)};
  }
  [[nodiscard]] bool padding(int64_t slot) const { return kda::is_padding(slot, p.null_slot, p.slots); }
  [[nodiscard]] Stored* state(int64_t slot, int64_t head) const {
    return static_cast<Stored*>(kda_recurrence_state(p, args, slot, head));
  }
  /// The state that a unit starts from; null where it has none.
  [[nodiscard]] const Stored* start(int64_t unit) const {
    const Share s = share(unit);
    const int64_t slot = kda_recurrence_index(args, s.sequence);
    return kda::rows_of(args.offsets, s.sequence).count() == 0 || padding(slot) ? nullptr : state(slot, s.head);
  }
};

template <class Act>
SILT_INLINE void prepare_gates(const KdaRecurrenceProblem& p, const KdaRecurrenceArgs& args,
                               const kda::HeadWeights& weights, int64_t row, int64_t head, kda_steps::Step& step) {
  const auto* gate = static_cast<const Act*>(args.raw_gate.data) + row * p.gate_stride + head * kDim;
  kda_steps::decay_factors(weights, gate, step.decay);
  step.beta = kda_steps::beta_of(static_cast<const Act*>(args.raw_beta.data) + row * p.beta_stride + head);
}

/// Everything that one token of a head feeds into the delta rule.
template <class Stored, class State>
void prepare(const KdaRecurrenceProblem& p, const KdaRecurrenceArgs& args, const kda::HeadWeights& weights, int64_t row,
             int64_t head, kda_steps::Ahead<State>& ahead, kda_steps::Step& step) {
  const int64_t first = head * kDim;
  ahead.ask_at_step();
  kda_steps::load_head(args.q.data, p.qkv, row * p.q_stride + first, step.q);
  kda_steps::load_head(args.k.data, p.qkv, row * p.k_stride + first, step.k);
  kda_steps::load_head(args.v.data, p.qkv, row * p.v_stride + first, step.v);
  if (p.dtype == DType::bf16) {
    prepare_gates<bf16>(p, args, weights, row, head, step);
  } else {
    prepare_gates<float>(p, args, weights, row, head, step);
  }
  ahead.ask_at_step();
  kda_steps::fold<Stored>(step);
}

inline void store_output(const KdaRecurrenceProblem& p, const KdaRecurrenceArgs& args, const Share& share, int64_t row,
                         const kda_steps::Vector& o) {
  const int64_t at = row * p.output_stride + share.head * kDim;
  if (p.output == DType::bf16) {
    kda_steps::store_values(o, share.begin, share.end, static_cast<bf16*>(args.output.data) + at);
  } else {
    kda_steps::store_values(o, share.begin, share.end, static_cast<float*>(args.output.data) + at);
  }
}

/// One token on `state`, which is stored or working memory.
template <class Stored, class State>
void run_token(const Call<Stored>& call, const kda::HeadWeights& weights, const Share& share, int64_t row, State* state,
               const State* next) {
  kda_steps::Step step;
  kda_steps::Vector o;
  kda_steps::Ahead<State> ahead(next);
  prepare<Stored>(call.p, call.args, weights, row, share.head, ahead, step);
  kda_steps::delta_rule(step, state, share.begin, share.end, ahead, o.values);
  ahead.ask_for_rest();
  store_output(call.p, call.args, share, row, o);
}

/// The tokens of a share on fp32 memory of its own (64 KiB of stack).
template <class Stored>
void run_apart(const Call<Stored>& call, const kda::HeadWeights& weights, const Share& share, int64_t slot) {
  alignas(64) float working[kDim * kDim];
  kda_steps::widen_rows(call.state(slot, share.head), share.begin, share.end, working);
  const kda::Rows rows = kda::rows_of(call.args.offsets, share.sequence);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    run_token<Stored, float>(call, weights, share, row, working, nullptr);
    if (call.p.columns == 0) continue;
    const int64_t target = kda_recurrence_target(call.args, share.sequence, row - rows.begin);
    if (call.padding(target)) continue;
    kda_steps::narrow_rows(working, share.begin, share.end, call.state(target, share.head));
  }
  if (call.p.columns == 0) kda_steps::narrow_rows(working, share.begin, share.end, call.state(slot, share.head));
}

/// `next` is the state of the task to come, or null.
template <class Stored>
void run_share(const Call<Stored>& call, const Share& share, const Stored* next) {
  const kda::Rows rows = kda::rows_of(call.args.offsets, share.sequence);
  if (rows.count() == 0) return;
  const int64_t slot = kda_recurrence_index(call.args, share.sequence);
  if (call.padding(slot)) {
    const kda_steps::Vector nothing{};
    for (int64_t row = rows.begin; row < rows.end; ++row) store_output(call.p, call.args, share, row, nothing);
    return;
  }
  const kda::HeadWeights weights = kda_recurrence_weights(call.p, call.args, share.head);
  const bool in_place = call.p.columns == 0 && (call.p.state == DType::f32 || rows.count() == 1);
  if (!in_place) {
    run_apart(call, weights, share, slot);
    return;
  }
  Stored* state = call.state(slot, share.head);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    run_token<Stored, Stored>(call, weights, share, row, state, row + 1 == rows.end ? next : nullptr);
  }
}

/// Asks for a head of a tensor of either type.
SILT_INLINE void ask_for_head(const void* data, DType dtype, int64_t at) {
  const auto size = static_cast<int64_t>(size_of(dtype));
  kda_steps::ask_for(static_cast<const std::byte*>(data) + at * size, kDim * size);
}

/// Asks for what the first token of a unit reads and writes beside its state. Inlined always: to GCC a function that
/// only asks has no effect, and it removes the calls.
template <class Stored>
SILT_INLINE void ask_for_inputs(const Call<Stored>& call, int64_t unit) {
  const Share share = call.share(unit);
  const kda::Rows rows = kda::rows_of(call.args.offsets, share.sequence);
  if (rows.count() == 0) return;
  const int64_t first = share.head * kDim;
  ask_for_head(call.args.q.data, call.p.qkv, rows.begin * call.p.q_stride + first);
  ask_for_head(call.args.k.data, call.p.qkv, rows.begin * call.p.k_stride + first);
  ask_for_head(call.args.v.data, call.p.qkv, rows.begin * call.p.v_stride + first);
  ask_for_head(call.args.raw_gate.data, call.p.dtype, rows.begin * call.p.gate_stride + first);
  ask_for_head(call.args.output.data, call.p.output, rows.begin * call.p.output_stride + first);
}

template <class Stored>
void run_units(const Call<Stored>& call, int64_t begin, int64_t end) {
  for (int64_t unit = begin; unit < end; ++unit) {
    const bool ahead = call.look_ahead && unit + 1 < end;
    if (call.look_ahead && unit + kInputsAhead < end) ask_for_inputs(call, unit + kInputsAhead);
    run_share(call, call.share(unit), ahead ? call.start(unit + 1) : nullptr);
  }
}

template <class Stored>
Status run(const KdaRecurrenceProblem& p, const KdaRecurrenceArgs& args, int requested) {
  Call<Stored> call{p, args};
  const int64_t tasks = p.n * p.h;
  const auto head_bytes = static_cast<int64_t>(kDim * kDim * sizeof(Stored));
  int64_t workers = resolve_threads(requested);
  if (p.t * p.h * head_bytes < kBytesAlone) workers = 1;
  call.sharers = std::clamp<int64_t>(workers / tasks, 1, kMostSharers);
  // In L2 the look-ahead only costs instructions; a shared task has none to come.
  call.look_ahead = call.sharers == 1 && tasks * head_bytes > cpu_facts().l2_bytes * std::min(workers, tasks);
  parallel_ranges(tasks * call.sharers, static_cast<int>(workers),
                  [&](int64_t begin, int64_t end) { run_units(call, begin, end); });
  return {};
}

inline Status launch(const KdaRecurrenceProblem& problem, const KdaRecurrenceArgs& args, const Launch& launch) {
  return problem.state == DType::bf16 ? run<bf16>(problem, args, launch.threads)
                                      : run<float>(problem, args, launch.threads);
}

}  // namespace silt::SILT_SIMD_NAMESPACE::recurrence_heads
SILT_SIMD_END;
