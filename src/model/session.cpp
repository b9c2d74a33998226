#include <algorithm>
#include <chrono>

#include "core/no_memory.hpp"
#include "core/workers.hpp"
#include "model/parts.hpp"

namespace silt {
namespace {

/// A session's context where neither the caller nor the memory asks for less: models promise up to a million tokens.
constexpr int64_t kDefaultContext = 32768;

Status fill_defaults(const Model& model, SessionOptions* options) {
  if (options->slots < 1 || options->slots > 65536)
    return invalid("session: slots: has {}, needs 1..65536", options->slots);
  if (options->context < 0 || options->context > INT32_MAX) {
    return invalid("session: context: has {}, needs 0 (the model's) .. {}", options->context, INT32_MAX);
  }
  if (options->prefill_chunk < 1 || options->prefill_chunk > 65536) {
    return invalid("session: prefill_chunk: has {}, needs 1..65536", options->prefill_chunk);
  }
  if (options->threads < 0) return invalid("session: threads: has {}, needs 0 (all cores) or more", options->threads);
  if (options->context == 0) options->context = std::min(model.info().context, kDefaultContext);
  options->threads = resolve_threads(options->threads);
  return {};
}

constexpr auto kSessionName = [] { return "session"; };

/// Rows of logits that an input asks for.
int64_t logit_rows_of(const StepInput& input) {
  if (input.logits == LogitsOf::all) return static_cast<int64_t>(input.tokens.size());
  return input.logits == LogitsOf::last ? 1 : 0;
}

}  // namespace

Session::Session(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Session::~Session() = default;

Status Session::create(std::shared_ptr<const Model> model, const SessionOptions& options,
                       std::unique_ptr<Session>* session) {
  if (!model) return invalid("session: model: has null, needs a loaded model");
  return with_memory(kSessionName, [&]() -> Status {
    auto parts = std::make_unique<Parts>(std::move(model));
    parts->options = options;
    SILT_TRY(fill_defaults(*parts->model, &parts->options));
    const Model::Parts& source = parts->model->parts();
    const Precision precision = source.info.precision;
    // A decode pass takes every slot at once, also where that is more than a chunk.
    const int64_t rows = std::max<int64_t>(parts->options.prefill_chunk, parts->options.slots);
    SILT_TRY(parts->work.make(source.config, precision, rows));
    SILT_TRY(parts->pools.make(source.config, precision, parts->options.slots, parts->options.context));
    parts->slots.resize(static_cast<size_t>(parts->options.slots));
    parts->trace = Trace(options.trace);
    session->reset(new Session(std::move(parts)));
    return {};
  });
}

Status Session::open(int32_t* slot) {
  for (size_t i = 0; i < parts_->slots.size(); ++i) {
    if (parts_->slots[i].open) continue;
    parts_->slots[i] = {.open = true};
    *slot = static_cast<int32_t>(i);
    return {};
  }
  return failed(StatusCode::exhausted, "session: slots: has all {} in use, needs a free one", parts_->slots.size());
}

Status Session::release(int32_t slot) {
  if (length(slot) < 0)
    return invalid("session: slot: has {}, needs an open one of 0..{}", slot, parts_->slots.size() - 1);
  parts_->slots[static_cast<size_t>(slot)] = {};
  return {};
}

Status Session::Parts::check(std::span<const StepInput> inputs) {
  std::vector<char>& seen = plan.seen;
  seen.assign(slots.size(), 0);
  const int64_t vocab = model->info().vocab_size;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const StepInput& input = inputs[i];
    const auto index = static_cast<size_t>(input.slot);
    if (input.slot < 0 || index >= slots.size() || !slots[index].open) {
      return invalid("session: input {}: slot: has {}, needs an open one of 0..{}", i, input.slot, slots.size() - 1);
    }
    if (slots[index].broken) {
      return invalid("session: input {}: slot: has {}, whose last step failed; needs to be released", i, input.slot);
    }
    if (seen[index] != 0)
      return invalid("session: input {}: slot: has {} a second time, needs distinct slots", i, input.slot);
    seen[index] = 1;
    if (input.tokens.empty()) return invalid("session: input {}: tokens: has none, needs at least one", i);
    const auto count = static_cast<int64_t>(input.tokens.size());
    if (count > options.context - slots[index].length) {
      return failed(StatusCode::exhausted,
                    "session: input {}: tokens: has {} behind {}, needs at most {} in all (the context)", i, count,
                    slots[index].length, options.context);
    }
    for (const int32_t token : input.tokens) {
      if (token < 0 || token >= vocab) {
        return invalid("session: input {}: tokens: has {}, needs 0..{} (vocab_size)", i, token, vocab - 1);
      }
    }
  }
  return {};
}

/// One step on its way through its passes.
class Session::Parts::Step {
 public:
  Step(Parts& parts, std::span<const StepInput> inputs) : p_(parts), plan_(parts.plan), inputs_(inputs) {
    plan_.taken.assign(inputs.size(), 0);
    plan_.first_row.clear();
    for (const StepInput& input : inputs) {
      plan_.first_row.push_back(rows_);
      rows_ += logit_rows_of(input);
      tokens_ += static_cast<int64_t>(input.tokens.size());
      decode_ = decode_ && input.tokens.size() == 1 && p_.slots[static_cast<size_t>(input.slot)].length > 0;
    }
    most_ = decode_ ? p_.options.slots : p_.options.prefill_chunk;
    vocab_ = p_.model->info().vocab_size;
  }

  [[nodiscard]] bool decode() const { return decode_; }
  [[nodiscard]] int64_t tokens() const { return tokens_; }

  /// Memory for the logits, before anything changes. One pass writes them in place; several write packed rows to a
  /// scratch from where they are put in order.
  Status reserve() {
    try {
      p_.logits.resize(static_cast<size_t>(rows_) * static_cast<size_t>(vocab_));
      if (tokens_ > most_) p_.packed_logits.resize(static_cast<size_t>(std::min(rows_, most_) * vocab_));
    } catch (const std::exception&) {  // bad_alloc, or length_error where the size is beyond any memory
      return failed(StatusCode::out_of_memory, "session: logits: has no memory for {} rows of {}, needs fewer", rows_,
                    vocab_);
    }
    return {};
  }

  Status run() {
    const Model::Parts& source = p_.model->parts();
    const bool packed = tokens_ > most_;
    for (int64_t done = 0; done < tokens_; done += p_.pass.rows()) {
      next_pass();
      plan_logits();
      float* out = packed ? p_.packed_logits.data() : p_.logits.data();
      Status status = with_memory(kSessionName, [&] {
        return run_pass(source.config, source.weights, p_.pass, p_.work, p_.pools, p_.trace, p_.options.threads,
                        plan_.logit_rows, out);
      });
      for (const Segment& segment : p_.pass.segments) {
        Slot& slot = p_.slots[static_cast<size_t>(segment.slot)];
        slot.length += segment.rows;
        slot.broken = !status.ok();
      }
      if (!status.ok()) return status;
      for (size_t i = 0; packed && i < plan_.targets.size(); ++i) {
        std::copy_n(out + static_cast<int64_t>(i) * vocab_, vocab_, p_.logits.data() + plan_.targets[i] * vocab_);
      }
    }
    return {};
  }

  [[nodiscard]] StepLogits logits_of(size_t input) const {
    const int64_t count = logit_rows_of(inputs_[input]);
    const auto first = static_cast<size_t>(plan_.first_row[input] * vocab_);
    return {std::span<const float>(p_.logits).subspan(first, static_cast<size_t>(count * vocab_)), count};
  }

 private:
  /// From every input with tokens left, as many as fit.
  void next_pass() {
    p_.pass.clear();
    plan_.pass_inputs.clear();
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const StepInput& input = inputs_[i];
      const int64_t left = static_cast<int64_t>(input.tokens.size()) - plan_.taken[i];
      const int64_t count = std::min(left, most_ - p_.pass.rows());
      if (count <= 0) continue;
      p_.pass.add(input.slot, p_.slots[static_cast<size_t>(input.slot)].length, input.tokens.data() + plan_.taken[i],
                  count);
      plan_.pass_inputs.push_back(i);
      plan_.taken[i] += count;
    }
  }

  /// Which rows of the pass have logits, and which row of the step's logits each becomes.
  void plan_logits() {
    plan_.logit_rows.clear();
    plan_.targets.clear();
    for (size_t s = 0; s < plan_.pass_inputs.size(); ++s) {
      const Segment& segment = p_.pass.segments[s];
      const size_t i = plan_.pass_inputs[s];
      const LogitsOf wanted = inputs_[i].logits;
      const auto count = static_cast<int64_t>(inputs_[i].tokens.size());
      const int64_t before = plan_.taken[i] - segment.rows;  // tokens of this input in earlier passes
      for (int64_t r = 0; r < segment.rows; ++r) {
        const bool last = before + r + 1 == count;
        if (wanted == LogitsOf::none || (wanted == LogitsOf::last && !last)) continue;
        plan_.logit_rows.push_back(segment.first + r);
        plan_.targets.push_back(plan_.first_row[i] + (wanted == LogitsOf::all ? before + r : 0));
      }
    }
  }

  Parts& p_;
  StepPlan& plan_;
  std::span<const StepInput> inputs_;
  int64_t rows_ = 0;
  int64_t tokens_ = 0;
  int64_t vocab_ = 0;
  bool decode_ = true;
  int64_t most_ = 0;  ///< tokens of a pass
};

Status Session::step(std::span<const StepInput> inputs, std::vector<StepLogits>* logits) {
  return with_memory(kSessionName, [&]() -> Status {
    SILT_TRY(parts_->check(inputs));
    const auto start = std::chrono::steady_clock::now();
    Parts::Step step(*parts_, inputs);
    SILT_TRY(step.reserve());
    logits->resize(inputs.size());
    SILT_TRY(step.run());
    for (size_t i = 0; i < inputs.size(); ++i) (*logits)[i] = step.logits_of(i);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    SessionStatistics& statistics = parts_->statistics;
    (step.decode() ? statistics.decode_tokens : statistics.prefill_tokens) += step.tokens();
    (step.decode() ? statistics.decode_seconds : statistics.prefill_seconds) += seconds;
    return {};
  });
}

int64_t Session::length(int32_t slot) const {
  const auto index = static_cast<size_t>(slot);
  if (slot < 0 || index >= parts_->slots.size() || !parts_->slots[index].open) return -1;
  return parts_->slots[index].length;
}

int32_t Session::free_slots() const {
  return static_cast<int32_t>(
      std::count_if(parts_->slots.begin(), parts_->slots.end(), [](const auto& s) { return !s.open; }));
}

const Model& Session::model() const { return *parts_->model; }
const SessionOptions& Session::options() const { return parts_->options; }
const SessionStatistics& Session::statistics() const { return parts_->statistics; }
int64_t Session::memory_bytes() const { return parts_->work.bytes() + parts_->pools.bytes(); }

}  // namespace silt
