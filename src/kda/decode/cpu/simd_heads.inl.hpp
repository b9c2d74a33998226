// What: kda_decode (contract.md) on one SIMD target.
//
// When: every checked problem; any strides, alignment to the element, SD and DS histories, fp32 and bf16 states and
// activations.
//
// Plan: a task is a (row, head), tasks in contiguous ranges over the workers. A task convolves its 3 x 128 channels and
// shifts their history (the front), goes over the 128 rows of its state in order and finishes with the output norm (the
// back). With fewer tasks than workers the 128 rows of a task are shared out instead: every worker does the front for
// itself, from a history that nobody has shifted yet; after a join one of them shifts it and does the back.
//
// Data path: 16 rows of the state at a time, in L1 between prediction and readout and their update. Where the states of
// the call do not fit L2, the next task's state is asked for there, its lines spread over everything this task does,
// and the inputs of the task after it: they are 61 lines in 16 places, and a front that waits for them leaves the
// memory idle. Ordinary stores: the lines are in the cache, and a streamed store would send them to memory twice.
//
// Bytes: per task 131,072 of fp32 state (65,536 bf16) and about 6 KB of everything else (cost.cpp).
//
// Rounding: fp32 throughout, one rounding at the output and at a bf16 state. Sums by one fixed tree: the bits of a task
// depend on the task alone, not on the thread count, the split, the batch or the target.
//
// Tried, with numbers in docs/ladder/kda_decode_cpu.md.
#pragma once

#include <algorithm>

#include "core/join.hpp"
#include "core/workers.hpp"
#include "device/facts.hpp"
#include "kda/decode/rows.hpp"
#include "kda/shared/simd_steps.inl.hpp"

SILT_SIMD_BEGIN;
namespace silt::SILT_SIMD_NAMESPACE::kda_decode_heads {

using kda_steps::kDim;

/// Below this many bytes of state (four heads) the caller works alone: handing work to a spinning worker and meeting it
/// again costs about a tenth of that work, or a scheduler's slice where another program wants the core.
constexpr int64_t kBytesAlone = 256 << 10;

/// Tasks between the one at work and the one whose inputs are asked for.
constexpr int64_t kInputsAhead = 2;

/// Everything a task has, for one call.
template <class Act, class Stored>
struct Call {
  const KdaDecodeProblem& p;
  const KdaDecodeArgs& args;
  bool look_ahead = false;

  [[nodiscard]] int64_t slot(int64_t task) const { return kda_decode_index(args, task / p.h); }
  [[nodiscard]] bool padding(int64_t task) const { return kda::is_padding(slot(task), p.null_slot, p.slots); }
  [[nodiscard]] Act* output(int64_t task) const { return kda_decode_output<Act>(p, args, task / p.h, task % p.h); }
  [[nodiscard]] Stored* state(int64_t task) const {
    return static_cast<Stored*>(kda_decode_state(p, args, slot(task), task % p.h));
  }
  [[nodiscard]] kda::HeadWeights weights(int64_t task) const { return kda_decode_weights(p, args, task % p.h); }
  [[nodiscard]] kda::HeadToken<Act> token(int64_t task) const {
    return kda_decode_token<Act>(p, args, task / p.h, task % p.h);
  }
  [[nodiscard]] kda::HistoryView<Act> history(int64_t task) const {
    return kda_decode_history<Act>(p, args, slot(task), task % p.h);
  }
};

/// What follows the convolution: gate, beta, norms.
template <class Act, class Stored>
void prepare(const kda::HeadWeights& weights, const kda::HeadToken<Act>& token, kda_steps::Ahead<Stored>& ahead,
             kda_steps::Step& step) {
  ahead.ask_at_step();
  kda_steps::decay_factors(weights, token.raw_gate, step.decay);
  step.beta = kda_steps::beta_of(token.raw_beta);
  ahead.ask_at_step();
  kda_steps::fold<Stored>(step);
}

/// Asks for everything but the state that a task reads and writes: x, history, gates, output. Inlined always: to GCC a
/// function that only asks has no effect, and it removes the calls.
template <class Act, class Stored>
SILT_INLINE void ask_for_inputs(const Call<Act, Stored>& call, int64_t task) {
  if (call.padding(task)) return;
  const kda::HeadToken<Act> token = call.token(task);
  const kda::HistoryView<Act> history = call.history(task);
  for (int64_t part = 0; part < kda::kParts; ++part) {
    kda_steps::ask_for(token.x + part * token.part_stride, kDim);
    if (history.layout == kda::History::ds) {
      kda_steps::ask_for(&history.at(part, 0, 0), kda::kHistory * kDim);
      continue;
    }
    for (int64_t step = 0; step < kda::kHistory; ++step) kda_steps::ask_for(&history.at(part, step, 0), kDim);
  }
  kda_steps::ask_for(token.raw_gate, kDim);
  kda_steps::ask_for(token.raw_beta, 1);
  if (token.output_gate != nullptr) kda_steps::ask_for(token.output_gate, kDim);
  kda_steps::ask_for(call.output(task), kDim);
}

template <class Act, class Stored>
void front(const Call<Act, Stored>& call, int64_t task, kda_steps::Ahead<Stored>& ahead, kda_steps::Step& step) {
  const kda::HeadWeights weights = call.weights(task);
  const kda::HeadToken<Act> token = call.token(task);
  const kda::HistoryView<Act> history = call.history(task);
  kda_steps::Vector* parts[] = {&step.q, &step.k, &step.v};
  for (int64_t part = 0; part < kda::kParts; ++part) {
    ahead.ask_at_step();
    kda_steps::convolve_and_shift(weights, history, part, token.x + part * token.part_stride, *parts[part]);
  }
  prepare(weights, token, ahead, step);
}

template <class Act, class Stored>
void back(const Call<Act, Stored>& call, int64_t task, const kda_steps::Vector& o) {
  if (call.p.norm) {
    const kda::HeadWeights weights = call.weights(task);
    kda_steps::gated_norm(o, call.token(task).output_gate, weights.norm_weight, weights.norm_eps,
                          GateActivation::sigmoid, call.output(task));
  } else {
    kda_steps::store_head(o, call.output(task));
  }
}

// ---- Tasks over workers
template <class Act, class Stored>
void run_tasks(const Call<Act, Stored>& call, int64_t begin, int64_t end) {
  for (int64_t task = begin; task < end; ++task) {
    if (call.padding(task)) {
      std::fill_n(call.output(task), kDim, Act{});
      continue;
    }
    const bool next = call.look_ahead && task + 1 < end && !call.padding(task + 1);
    if (call.look_ahead && task + kInputsAhead < end) ask_for_inputs(call, task + kInputsAhead);
    kda_steps::Ahead<Stored> ahead(next ? call.state(task + 1) : nullptr);
    kda_steps::Step step;
    kda_steps::Vector o;
    front(call, task, ahead, step);
    kda_steps::delta_rule(step, call.state(task), 0, kDim, ahead, o.values);
    ahead.ask_for_rest();
    back(call, task, o);
  }
}

// ---- Rows of a task over workers
/// A window that does not move: the worker's own copy of a history, so that the shared one stays as it is.
template <class Act>
struct Snapshot {
  alignas(64) Act values[kda::kParts][kda::kHistory][kDim];

  explicit Snapshot(const kda::HistoryView<Act>& history) {
    for (int64_t part = 0; part < kda::kParts; ++part) {
      for (int64_t step = 0; step < kda::kHistory; ++step) {
        for (int64_t c = 0; c < kDim; ++c) values[part][step][c] = history.at(part, step, c);
      }
    }
  }
};

/// The first row of a share; shares are whole blocks.
inline int64_t share_begin(int64_t self, int64_t sharers) {
  return kDim / kda_steps::kBlockRows * self / sharers * kda_steps::kBlockRows;
}

/// Participant `self` of `sharers` on one task.
template <class Act, class Stored>
void run_share(const Call<Act, Stored>& call, int64_t task, int64_t self, int64_t sharers, Join& join,
               kda_steps::Vector& o) {
  const bool padding = call.padding(task);
  if (!padding) {
    const kda::HeadWeights weights = call.weights(task);
    const kda::HeadToken<Act> token = call.token(task);
    const Snapshot<Act> window(call.history(task));
    kda_steps::Step step;
    kda_steps::Vector* parts[] = {&step.q, &step.k, &step.v};
    for (int64_t part = 0; part < kda::kParts; ++part) {
      const Act* taps[kda::kTaps] = {window.values[part][0], window.values[part][1], window.values[part][2],
                                     token.x + part * token.part_stride};
      kda_steps::convolve(weights, part, taps, *parts[part]);
    }
    kda_steps::Ahead<Stored> nothing(nullptr);
    prepare(weights, token, nothing, step);
    kda_steps::delta_rule(step, call.state(task), share_begin(self, sharers), share_begin(self + 1, sharers), nothing,
                          o.values);
  }
  join.wait();  // every row of o is there, and everybody has read the history
  if (self != 0) return;
  if (padding) {
    std::fill_n(call.output(task), kDim, Act{});
    return;
  }
  const kda::HistoryView<Act> history = call.history(task);
  const kda::HeadToken<Act> token = call.token(task);
  for (int64_t part = 0; part < kda::kParts; ++part) {
    for (int64_t c = 0; c < kDim; ++c) {
      history.at(part, 0, c) = history.at(part, 1, c);
      history.at(part, 1, c) = history.at(part, 2, c);
      history.at(part, 2, c) = token.x[part * token.part_stride + c];
    }
  }
  back(call, task, o);
}

/// `sharers` workers per task, all of the call's tasks at once.
template <class Act, class Stored>
void run_shared(const Call<Act, Stored>& call, int64_t tasks, int64_t sharers, kda_steps::Vector* o, Join& join) {
  const int64_t workers = tasks * sharers;
  parallel_ranges(workers, static_cast<int>(workers), [&](int64_t begin, int64_t end) {
    if (end - begin == 1) {
      const int64_t task = begin / sharers;
      run_share(call, task, begin % sharers, sharers, join, o[task]);
    } else {
      // The workers were busy with another caller's call, so this thread does everything.
      run_tasks(call, begin / sharers, end / sharers);
    }
  });
}

// ---- Launch
constexpr int64_t kMostSharedTasks = 16;
constexpr int64_t kMostSharers = 8;  // below 16 rows a share is all front

template <class Act, class Stored>
Status run(const KdaDecodeProblem& p, const KdaDecodeArgs& args, int requested) {
  Call<Act, Stored> call{p, args};
  const int64_t tasks = p.b * p.h;
  const int64_t state_bytes = tasks * kDim * kDim * static_cast<int64_t>(sizeof(Stored));
  int64_t workers = resolve_threads(requested);
  if (state_bytes < kBytesAlone) workers = 1;
  // In L2 the look-ahead only costs instructions.
  call.look_ahead = state_bytes > cpu_facts().l2_bytes * std::min(workers, tasks);
  const int64_t sharers = std::min(workers / tasks, kMostSharers);
  if (sharers >= 2 && tasks <= kMostSharedTasks) {
    kda_steps::Vector o[kMostSharedTasks];
    Join join(static_cast<int>(tasks * sharers));
    run_shared(call, tasks, sharers, o, join);
    return {};
  }
  parallel_ranges(tasks, static_cast<int>(workers), [&](int64_t begin, int64_t end) { run_tasks(call, begin, end); });
  return {};
}

inline Status launch(const KdaDecodeProblem& problem, const KdaDecodeArgs& args, const Launch& launch) {
  const bool halves = problem.dtype == DType::bf16;
  if (problem.state == DType::bf16) {
    return halves ? run<bf16, bf16>(problem, args, launch.threads) : run<float, bf16>(problem, args, launch.threads);
  }
  return halves ? run<bf16, float>(problem, args, launch.threads) : run<float, float>(problem, args, launch.threads);
}

}  // namespace silt::SILT_SIMD_NAMESPACE::kda_decode_heads
SILT_SIMD_END;
