// What the SIMD kernels of kda_prefill share: a head of a sequence, its outputs, and how tasks are handed out.
//
// A task is a (sequence, head), tasks in contiguous ranges over the workers. With fewer tasks than workers the 128 rows
// of a task's state are shared out: rows of the state depend on no other row, but the output norm needs all of a
// token's values, so the sharers meet once a block of 16 tokens and finish its tokens among themselves. Two buffers
// take turns: who has come to the meeting of a block has finished the block before.
//
// Everybody convolves for himself, from his own copy of the history; after a last meeting one of them writes it.
#pragma once

#include <algorithm>
#include <optional>

#include "core/join.hpp"
#include "core/workers.hpp"
#include "device/facts.hpp"
#include "kda/prefill/rows.hpp"
#include "kda/shared/cpu_conv.hpp"
#include "kda/shared/simd_state.inl.hpp"

SILT_SIMD_BEGIN;
namespace silt::SILT_SIMD_NAMESPACE::prefill {

using kda_steps::kDim;
using kda_steps::Vector;

/// Below this many bytes of state met by tokens (four heads of one token) the caller works alone.
constexpr int64_t kBytesAlone = 256 << 10;
/// Below 16 rows a share is all preparation.
constexpr int64_t kMostSharers = 8;
/// With more tasks than this at hand, whole tasks keep the workers busy well enough; a task's buffers are 16 KiB of the
/// caller's stack.
constexpr int64_t kMostSharedTasks = 16;
/// Tokens from one meeting to the next.
constexpr int64_t kBlock = 16;
/// Tokens between the one at work and the one whose inputs are asked for: some 10 us of work.
constexpr int64_t kTokensAhead = 4;

/// Rows [begin, end) of the state of one task.
struct Share {
  int64_t sequence;
  int64_t head;
  int64_t begin;
  int64_t end;
};

/// What the sharers of a task have in common.
struct Meeting {
  explicit Meeting(int sharers) : join(sharers) {}

  Join join;
  Vector o[2][kBlock];
};

/// One worker's part in a task.
struct Member {
  Vector* own = nullptr;  ///< kBlock outputs, for a worker that has the task to himself
  Meeting* meeting = nullptr;
  int64_t self = 0;
  int64_t sharers = 1;

  /// Where the outputs of the block from token `first` on are gathered.
  [[nodiscard]] Vector* outputs(int64_t first) const {
    return meeting == nullptr ? own : meeting->o[first / kBlock % 2];
  }
  void meet() const {
    if (meeting != nullptr) meeting->join.wait();
  }
};

template <class Act, class Stored>
struct Call {
  const KdaPrefillProblem& p;
  const KdaPrefillArgs& args;
  bool look_ahead = false;

  [[nodiscard]] bool padding(int64_t slot) const { return kda::is_padding(slot, p.null_slot, p.slots); }
  [[nodiscard]] Stored* state(int64_t slot, int64_t head) const {
    return static_cast<Stored*>(kda_prefill_state(p, args, slot, head));
  }
  /// The state that a task starts from; null where it has none.
  [[nodiscard]] const Stored* start(int64_t task) const {
    const int64_t sequence = task / p.h;
    const int64_t slot = kda_prefill_index(args, sequence);
    return kda::rows_of(args.offsets, sequence).count() == 0 || padding(slot) ? nullptr : state(slot, task % p.h);
  }
};

/// A live head of a sequence, as one worker sees it: tokens count from the sequence's first.
template <class Act, class Stored>
class Head {
 public:
  Head(const Call<Act, Stored>& call, const Share& rows_of_state)
      : share(rows_of_state),
        known(kda_prefill_known(call.args, rows_of_state.sequence)),
        stored(call.state(kda_prefill_index(call.args, rows_of_state.sequence), rows_of_state.head)),
        p_(call.p),
        args_(call.args),
        rows_(kda::rows_of(call.args.offsets, rows_of_state.sequence)),
        weights_(kda_prefill_weights(call.p, call.args, rows_of_state.head)),
        inputs_{inputs(0), inputs(1), inputs(2)} {}

  [[nodiscard]] int64_t tokens() const { return rows_.count(); }

  /// q, k and v of a token before their norms, decay and beta.
  void front(int64_t token, kda_steps::Step& step) const {
    ask_for(token + kTokensAhead);
    Vector* parts[] = {&step.q, &step.k, &step.v};
    for (int64_t part = 0; part < kda::kParts; ++part) {
      const Act* taps[kda::kTaps];
      inputs_[part].taps(token, taps);
      kda_steps::convolve(weights_, part, taps, *parts[part]);
    }
    const kda::HeadToken<Act> at = kda_prefill_token<Act>(p_, args_, rows_.begin + token, share.head);
    kda_steps::decay_factors(weights_, at.raw_gate, step.decay);
    step.beta = kda_steps::beta_of(at.raw_beta);
  }

  /// The output of a token from all its values.
  void back(int64_t token, const Vector& o) const {
    const int64_t row = rows_.begin + token;
    Act* output = kda_prefill_output<Act>(p_, args_, row, share.head);
    if (weights_.norm_weight == nullptr) {
      kda_steps::store_head(o, output);
      return;
    }
    const kda::HeadToken<Act> at = kda_prefill_token<Act>(p_, args_, row, share.head);
    kda_steps::gated_norm(o, at.output_gate, weights_.norm_weight, weights_.norm_eps, GateActivation::sigmoid, output);
  }

  void store_history() const {
    for (const auto& part : inputs_) part.store_history(tokens());
  }

  // ---- For steps that take a run of tokens at once
  [[nodiscard]] const kda::HeadWeights& weights() const { return weights_; }
  [[nodiscard]] kda::HeadToken<Act> token(int64_t token) const {
    return kda_prefill_token<Act>(p_, args_, rows_.begin + token, share.head);
  }
  [[nodiscard]] Act* output(int64_t token) const {
    return kda_prefill_output<Act>(p_, args_, rows_.begin + token, share.head);
  }
  [[nodiscard]] int64_t x_stride() const { return p_.x_stride; }
  [[nodiscard]] int64_t gate_stride() const { return p_.gate_stride; }
  [[nodiscard]] int64_t output_gate_stride() const { return p_.output_gate_stride; }
  /// What the convolution `part` of tokens `first` to `first + kBlock - 1` reads, oldest first.
  void block_inputs(int64_t part, int64_t first, const Act* (&rows)[kda::kHistory + kBlock]) const {
    for (int64_t i = 0; i < kBlock; i += kda::kTaps) {
      const Act* taps[kda::kTaps];
      inputs_[part].taps(first + i, taps);
      std::copy_n(taps, kda::kTaps, rows + i);
    }
    for (int64_t i = 0; i < kda::kHistory; ++i) {
      rows[kBlock + i] = token(first + kBlock - kda::kHistory + i).x + part * p_.p();
    }
  }

  const Share share;
  const bool known;      ///< whether state and history are what the memory holds
  Stored* const stored;  ///< the state in its slot

 private:
  /// Asks for the inputs of a token in L2: they lie a row of all heads apart, further than the hardware looks ahead.
  /// Inlined always: to GCC a function that only asks has no effect, and it removes the calls.
  SILT_INLINE void ask_for(int64_t token) const {
    if (token >= tokens()) return;
    const kda::HeadToken<Act> at = kda_prefill_token<Act>(p_, args_, rows_.begin + token, share.head);
    constexpr int64_t kLine = kda_steps::kLineBytes / static_cast<int64_t>(sizeof(Act));
    for (int64_t c = 0; c < kDim; c += kLine) {
      for (int64_t part = 0; part < kda::kParts; ++part) prefetch_l2(at.x + part * at.part_stride + c);
      prefetch_l2(at.raw_gate + c);
      if (at.output_gate != nullptr) prefetch_l2(at.output_gate + c);
    }
  }

  [[nodiscard]] kda::cpu::ConvInputs<Act> inputs(int64_t part) const {
    const kda::HeadToken<Act> first = kda_prefill_token<Act>(p_, args_, rows_.begin, share.head);
    const int64_t slot = kda_prefill_index(args_, share.sequence);
    return kda::cpu::ConvInputs<Act>(kda_prefill_history<Act>(p_, args_, slot, share.head), part, kDim,
                                     first.x + part * first.part_stride, p_.x_stride, known);
  }

  const KdaPrefillProblem& p_;
  const KdaPrefillArgs& args_;
  const kda::Rows rows_;
  const kda::HeadWeights weights_;
  const kda::cpu::ConvInputs<Act> inputs_[kda::kParts];
};

/// The outputs of up to kBlock tokens from `first` on, once all sharers have brought their rows.
template <class Act, class Stored>
void finish_block(const Head<Act, Stored>& head, const Member& member, int64_t first, int64_t count, const Vector* o) {
  member.meet();
  for (int64_t i = member.self; i < count; i += member.sharers) head.back(first + i, o[i]);
}

/// Up to kBlock tokens one after the other. Rows of `state` have their columns in the order of a stored `Order`.
/// `next`, if any, is the state of the task to come.
template <class Order, class Act, class Stored, class State>
void run_block_of_tokens(const Head<Act, Stored>& head, const Member& member, int64_t first, int64_t count,
                         State* state, const State* next) {
  Vector* o = member.outputs(first);
  for (int64_t i = 0; i < count; ++i) {
    kda_steps::Step step;
    head.front(first + i, step);
    kda_steps::fold<Order>(step);
    kda_steps::Ahead<State> ahead(i + 1 == count ? next : nullptr);
    kda_steps::delta_rule(step, state, head.share.begin, head.share.end, ahead, o[i].values);
    ahead.ask_for_rest();
  }
  finish_block(head, member, first, count, o);
}

/// All tokens of a head one after the other.
template <class Act, class Stored, class State>
void run_tokens_on(const Head<Act, Stored>& head, const Member& member, State* state, const State* next) {
  for (int64_t first = 0; first < head.tokens(); first += kBlock) {
    const int64_t count = std::min(kBlock, head.tokens() - first);
    run_block_of_tokens<Stored>(head, member, first, count, state, first + count == head.tokens() ? next : nullptr);
  }
}

/// The same on fp32 memory of its own (64 KiB of stack), rounded once at the end.
template <class Act, class Stored>
void run_tokens_apart(const Head<Act, Stored>& head, const Member& member) {
  const Share& share = head.share;
  alignas(64) float working[kDim * kDim];
  if (head.known) {
    kda_steps::widen_rows(head.stored, share.begin, share.end, working);
  } else {
    std::fill(working + share.begin * kDim, working + share.end * kDim, 0.0F);
  }
  run_tokens_on<Act, Stored, float>(head, member, working, nullptr);
  kda_steps::narrow_rows(working, share.begin, share.end, head.stored);
}

/// The token loop: in place where the state is fp32 or met once, else apart.
template <class Act, class Stored>
void run_tokens(const Head<Act, Stored>& head, const Member& member, const Stored* next) {
  const Share& share = head.share;
  if (sizeof(Stored) != sizeof(float) && head.tokens() > 1) {
    run_tokens_apart(head, member);
    return;
  }
  if (!head.known) std::fill(head.stored + share.begin * kDim, head.stored + share.end * kDim, Stored{});
  run_tokens_on<Act, Stored, Stored>(head, member, head.stored, next);
}

// ---- Tasks over workers. `Way` says how the tokens of a head are taken:
//   template <class Act, class Stored>
//   static void run(const Head<Act, Stored>&, const Member&, const Stored* next);
template <class Way, class Act, class Stored>
void run_share(const Call<Act, Stored>& call, const Share& share, const Member& member, const Stored* next) {
  const kda::Rows rows = kda::rows_of(call.args.offsets, share.sequence);
  if (rows.count() == 0) return;
  if (call.padding(kda_prefill_index(call.args, share.sequence))) {
    for (int64_t row = rows.begin + member.self; row < rows.end; row += member.sharers) {
      std::fill_n(kda_prefill_output<Act>(call.p, call.args, row, share.head), kDim, Act{});
    }
    return;
  }
  const Head<Act, Stored> head(call, share);
  Way::template run<Act, Stored>(head, member, next);
  member.meet();  // everybody has a copy of the history
  if (member.self == 0) head.store_history();
}

template <class Way, class Act, class Stored>
void run_tasks(const Call<Act, Stored>& call, int64_t begin, int64_t end) {
  Vector own[kBlock];
  Member member;
  member.own = own;
  for (int64_t task = begin; task < end; ++task) {
    const bool ahead = call.look_ahead && task + 1 < end;
    run_share<Way>(call, Share{task / call.p.h, task % call.p.h, 0, kDim}, member,
                   ahead ? call.start(task + 1) : nullptr);
  }
}

/// The first row of a share; shares are whole blocks of rows.
inline int64_t share_begin(int64_t self, int64_t sharers) {
  return kDim / kda_steps::kBlockRows * self / sharers * kda_steps::kBlockRows;
}

/// `sharers` workers per task, all of the call's tasks at once.
template <class Way, class Act, class Stored>
void run_shared(const Call<Act, Stored>& call, int64_t tasks, int64_t sharers) {
  std::optional<Meeting> meetings[kMostSharedTasks];
  for (int64_t task = 0; task < tasks; ++task) meetings[task].emplace(static_cast<int>(sharers));
  const int64_t workers = tasks * sharers;
  parallel_ranges(workers, static_cast<int>(workers), [&](int64_t begin, int64_t end) {
    if (end - begin != 1) {
      // The workers were busy with another caller's call, so this thread does everything.
      run_tasks<Way>(call, begin / sharers, end / sharers);
      return;
    }
    const int64_t task = begin / sharers;
    Member member;
    member.meeting = &*meetings[task];
    member.self = begin % sharers;
    member.sharers = sharers;
    const Share share{task / call.p.h, task % call.p.h, share_begin(member.self, sharers),
                      share_begin(member.self + 1, sharers)};
    run_share<Way, Act, Stored>(call, share, member, nullptr);
  });
}

template <class Way, class Act, class Stored>
Status run(const KdaPrefillProblem& p, const KdaPrefillArgs& args, int requested) {
  Call<Act, Stored> call{p, args};
  const int64_t tasks = p.n * p.h;
  const auto head_bytes = static_cast<int64_t>(kDim * kDim * sizeof(Stored));
  int64_t workers = resolve_threads(requested);
  if (p.t * p.h * head_bytes < kBytesAlone) workers = 1;
  const int64_t sharers = std::min(workers / tasks, kMostSharers);
  if (sharers >= 2 && tasks <= kMostSharedTasks) {
    run_shared<Way>(call, tasks, sharers);
    return {};
  }
  // In L2 the look-ahead only costs instructions.
  call.look_ahead = tasks * head_bytes > cpu_facts().l2_bytes * std::min(workers, tasks);
  parallel_ranges(tasks, static_cast<int>(workers),
                  [&](int64_t begin, int64_t end) { run_tasks<Way>(call, begin, end); });
  return {};
}

template <class Way>
Status launch(const KdaPrefillProblem& problem, const KdaPrefillArgs& args, const Launch& launch) {
  const bool halves = problem.dtype == DType::bf16;
  if (problem.state == DType::bf16) {
    return (halves ? run<Way, bf16, bf16> : run<Way, float, bf16>)(problem, args, launch.threads);
  }
  return (halves ? run<Way, bf16, float> : run<Way, float, float>)(problem, args, launch.threads);
}

}  // namespace silt::SILT_SIMD_NAMESPACE::prefill
SILT_SIMD_END;
