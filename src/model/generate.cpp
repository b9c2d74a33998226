// Several prompts to text: prompts wait for free slots, new ones are prefilled in chunks, all running ones are decoded
// together.
#include <algorithm>
#include <numeric>

#include "core/no_memory.hpp"
#include "model/parts.hpp"
#include "model/sampling.hpp"
#include "model/utf8.hpp"

namespace silt {
namespace {

/// One prompt on its way.
struct Run {
  size_t index = 0;
  int32_t slot = -1;
  int64_t prefilled = 0;
  int32_t next = -1;  ///< taken, not yet fed
  Sampler sampler;
  Utf8Stream utf8;
  StopFilter stops;
  bool done = false;

  Run(size_t prompt, const GenerateOptions& options)
      : index(prompt), sampler(options.sampling, prompt), stops(options.stop) {}
};

class Generation {
 public:
  Generation(Session& session, std::span<const std::vector<int32_t>> prompts, const GenerateOptions& options,
             GenerateResult* result)
      : session_(session), prompts_(prompts), options_(options), result_(result) {
    for (const auto& prompt : prompts) total_ += static_cast<int64_t>(prompt.size());
  }
  ~Generation() {
    for (const Run& run : running_) static_cast<void>(session_.release(run.slot));
  }
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  Status run() {
    result_->completions.resize(prompts_.size());
    while (!cancelled_ && (waiting_ < prompts_.size() || !running_.empty())) {
      SILT_TRY(admit());
      SILT_TRY(prefill());
      if (!cancelled_) SILT_TRY(decode());
    }
    // What was cancelled before it was done, prompts that never ran included.
    for (Run& run : running_) finish(run, StopReason::cancelled);
    for (; waiting_ < prompts_.size(); ++waiting_) result_->completions[waiting_].reason = StopReason::cancelled;
    return {};
  }

 private:
  Status admit() {
    while (waiting_ < prompts_.size() && session_.free_slots() > 0) {
      Run& run = running_.emplace_back(waiting_, options_);  // before it has a slot, which would be lost with it
      SILT_TRY(session_.open(&run.slot));
      ++waiting_;
    }
    return {};
  }

  /// Brings every new prompt to its first token, a chunk at a time.
  Status prefill() {
    while (!cancelled_) {
      int64_t room = session_.options().prefill_chunk;
      inputs_.clear();
      active_.clear();
      for (Run& run : running_) {
        const std::vector<int32_t>& prompt = prompts_[run.index];
        const int64_t count = std::min(room, static_cast<int64_t>(prompt.size()) - run.prefilled);
        if (count <= 0) continue;
        const bool last = run.prefilled + count == static_cast<int64_t>(prompt.size());
        const auto tokens = std::span(prompt).subspan(static_cast<size_t>(run.prefilled), static_cast<size_t>(count));
        inputs_.push_back({run.slot, tokens, last ? LogitsOf::last : LogitsOf::none});
        active_.push_back(&run);
        room -= count;
      }
      if (inputs_.empty()) return {};
      SILT_TRY(session_.step(inputs_, &logits_));
      for (size_t i = 0; i < active_.size(); ++i) {
        active_[i]->prefilled += static_cast<int64_t>(inputs_[i].tokens.size());
        done_ += static_cast<int64_t>(inputs_[i].tokens.size());
        if (logits_[i].rows > 0) SILT_TRY(take(*active_[i], logits_[i].values));
      }
      if (options_.on_prefill && !options_.on_prefill(done_, total_)) cancelled_ = true;
      drop_finished();
    }
    return {};
  }

  Status decode() {
    inputs_.clear();
    active_.clear();
    for (Run& run : running_) {
      inputs_.push_back({run.slot, std::span(&run.next, 1), LogitsOf::last});
      active_.push_back(&run);
    }
    if (inputs_.empty()) return {};
    SILT_TRY(session_.step(inputs_, &logits_));
    for (size_t i = 0; i < active_.size(); ++i) SILT_TRY(take(*active_[i], logits_[i].values));
    drop_finished();
    return {};
  }

  /// The next token of a run from its logits, and what follows from it.
  Status take(Run& run, std::span<const float> logits) {
    Completion& completion = result_->completions[run.index];
    SILT_TRY(run.sampler.take(logits, &run.next));
    completion.tokens.push_back(run.next);
    const std::vector<int32_t>& ends = session_.model().info().eos_tokens;
    const bool end = !options_.ignore_end && std::find(ends.begin(), ends.end(), run.next) != ends.end();
    if (end) {
      finish(run, StopReason::end_of_text);
      return {};
    }
    std::string text;
    std::string out;
    run.utf8.push(session_.model().decode(std::span(&run.next, 1)), &text);
    const bool stopped = run.stops.push(text, &out);
    send(run, out);
    if (stopped) {
      finish_quietly(run, StopReason::stop_string);
    } else if (static_cast<int64_t>(completion.tokens.size()) >= options_.max_tokens) {
      finish(run, StopReason::length);
    } else if (session_.length(run.slot) >= session_.options().context) {
      finish(run, StopReason::context);
    }
    return {};
  }

  void send(const Run& run, const std::string& text) {
    if (text.empty()) return;
    result_->completions[run.index].text += text;
    if (options_.on_text && !options_.on_text(run.index, text)) cancelled_ = true;
  }

  /// Ends a run with whatever its filters still hold; an ending inside a stop string's beginning is text after all.
  void finish(Run& run, StopReason reason) {
    if (run.done) return;
    std::string text;
    std::string out;
    run.utf8.finish(&text);
    const bool stopped = run.stops.push(text, &out);
    if (!stopped) run.stops.finish(&out);
    send(run, out);
    finish_quietly(run, stopped ? StopReason::stop_string : reason);
  }

  void finish_quietly(Run& run, StopReason reason) {
    result_->completions[run.index].reason = reason;
    run.done = true;
  }

  void drop_finished() {
    for (const Run& run : running_) {
      if (run.done) static_cast<void>(session_.release(run.slot));
    }
    std::erase_if(running_, [](const Run& run) { return run.done; });
  }

  Session& session_;
  std::span<const std::vector<int32_t>> prompts_;
  const GenerateOptions& options_;
  GenerateResult* result_;
  std::vector<Run> running_;
  size_t waiting_ = 0;
  int64_t done_ = 0;
  int64_t total_ = 0;
  bool cancelled_ = false;
  std::vector<StepInput> inputs_;
  std::vector<Run*> active_;
  std::vector<StepLogits> logits_;
};

Status check(const Session& session, std::span<const std::vector<int32_t>> prompts, const GenerateOptions& options) {
  SILT_TRY(check_sampling(options.sampling));
  if (options.max_tokens < 1) return invalid("generate: max_tokens: has {}, needs at least 1", options.max_tokens);
  for (const std::string& stop : options.stop) {
    if (stop.empty()) return invalid("generate: stop: has an empty string, needs text");
  }
  const int64_t context = session.options().context;
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (prompts[i].empty()) return invalid("generate: prompt {}: has no tokens, needs at least one", i);
    if (static_cast<int64_t>(prompts[i].size()) > context) {
      return failed(StatusCode::exhausted, "generate: prompt {}: has {} tokens, needs at most {} (the context)", i,
                    prompts[i].size(), context);
    }
    for (const int32_t token : prompts[i]) {
      if (token < 0 || token >= session.model().info().vocab_size) {
        return invalid("generate: prompt {}: has token {}, needs 0..{} (vocab_size)", i, token,
                       session.model().info().vocab_size - 1);
      }
    }
  }
  if (!prompts.empty() && session.free_slots() == 0) {
    return failed(StatusCode::exhausted, "generate: slots: has none free, needs at least one");
  }
  return {};
}

}  // namespace

SessionStatistics since(const SessionStatistics& now, const SessionStatistics& before) {
  return {now.prefill_tokens - before.prefill_tokens, now.decode_tokens - before.decode_tokens,
          now.prefill_seconds - before.prefill_seconds, now.decode_seconds - before.decode_seconds};
}

std::string_view to_string(StopReason reason) {
  switch (reason) {
    case StopReason::end_of_text:
      return "end of text";
    case StopReason::length:
      return "length";
    case StopReason::stop_string:
      return "stop string";
    case StopReason::context:
      return "context full";
    case StopReason::cancelled:
      return "cancelled";
  }
  return "unknown";
}

Status generate(Session& session, std::span<const std::vector<int32_t>> prompts, const GenerateOptions& options,
                GenerateResult* result) {
  *result = {};
  SILT_TRY(check(session, prompts, options));
  const SessionStatistics before = session.statistics();
  Status status =
      with_memory([] { return "generate"; }, [&] { return Generation(session, prompts, options, result).run(); });
  result->statistics = since(session.statistics(), before);
  return status;
}

}  // namespace silt
