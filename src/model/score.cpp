// Bits per byte of a text, in windows that each start from an empty state.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/no_memory.hpp"
#include "core/workers.hpp"
#include "model/parts.hpp"

namespace silt {
namespace {

/// -log2 of the probability that this row of logits gives to `target`.
double bits_of(std::span<const float> logits, int32_t target) {
  double largest = -std::numeric_limits<double>::infinity();
  for (const float logit : logits) largest = std::max(largest, static_cast<double>(logit));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return (std::log(sum) + largest - static_cast<double>(logits[static_cast<size_t>(target)])) / std::log(2.0);
}

/// One window on its way: the begin token and all its tokens but the last go in, its tokens are the targets.
struct Window {
  size_t index = 0;
  int32_t slot = -1;
  std::vector<int32_t> inputs;
  std::span<const int32_t> targets;
  int64_t done = 0;
  [[nodiscard]] int64_t left() const { return static_cast<int64_t>(inputs.size()) - done; }
};

class Scoring {
 public:
  Scoring(Session& session, std::vector<int32_t> tokens, const ScoreOptions& options, ScoreResult* result)
      : session_(session), tokens_(std::move(tokens)), options_(options), result_(result) {}
  ~Scoring() {
    for (const Window& window : running_) static_cast<void>(session_.release(window.slot));
  }
  Scoring(const Scoring&) = delete;
  Scoring& operator=(const Scoring&) = delete;

  Status run() {
    const auto total = static_cast<int64_t>(tokens_.size());
    const int64_t windows = (total + options_.window - 1) / options_.window;
    result_->bits_per_window.assign(static_cast<size_t>(windows), 0.0);
    int64_t scored = 0;
    while (next_ < result_->bits_per_window.size() || !running_.empty()) {
      SILT_TRY(admit());
      SILT_TRY(step(&scored));
      if (options_.on_progress && !options_.on_progress(scored, total)) {
        return failed(StatusCode::exhausted, "score: cancelled after {} of {} tokens", scored, total);
      }
    }
    for (const double bits : result_->bits_per_window) result_->bits += bits;
    return {};
  }

 private:
  Status admit() {
    const int32_t begin = session_.model().info().bos_token;
    while (next_ < result_->bits_per_window.size() && session_.free_slots() > 0) {
      Window& window = running_.emplace_back();  // before it has a slot, which would be lost with it
      SILT_TRY(session_.open(&window.slot));
      window.index = next_++;
      const size_t first = window.index * static_cast<size_t>(options_.window);
      const size_t count = std::min(static_cast<size_t>(options_.window), tokens_.size() - first);
      window.targets = std::span(tokens_).subspan(first, count);
      window.inputs.push_back(begin);
      window.inputs.insert(window.inputs.end(), window.targets.begin(), window.targets.end() - 1);
    }
    return {};
  }

  /// One chunk, shared by the running windows.
  Status step(int64_t* scored) {
    std::vector<StepInput> inputs;
    const int64_t chunk = session_.options().prefill_chunk;
    const int64_t share = std::max<int64_t>(1, chunk / static_cast<int64_t>(running_.size()));
    int64_t room = chunk;
    for (Window& window : running_) {
      const int64_t count = std::min({share, room, window.left()});
      if (count == 0) break;
      inputs.push_back({window.slot,
                        std::span(window.inputs).subspan(static_cast<size_t>(window.done), static_cast<size_t>(count)),
                        LogitsOf::all});
      room -= count;
    }
    SILT_TRY(session_.step(inputs, &logits_));
    for (size_t i = 0; i < inputs.size(); ++i) {
      add_bits(&running_[i], logits_[i]);
      *scored += logits_[i].rows;
      if (running_[i].left() == 0) static_cast<void>(session_.release(running_[i].slot));
    }
    std::erase_if(running_, [](const Window& window) { return window.left() == 0; });
    return {};
  }

  void add_bits(Window* window, const StepLogits& logits) {
    const size_t vocab = static_cast<size_t>(session_.model().info().vocab_size);
    row_bits_.resize(static_cast<size_t>(logits.rows));
    parallel_ranges(logits.rows, session_.options().threads, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const auto row = static_cast<size_t>(r);
        row_bits_[row] =
            bits_of(logits.values.subspan(row * vocab, vocab), window->targets[static_cast<size_t>(window->done + r)]);
      }
    });
    for (const double bits : row_bits_) result_->bits_per_window[window->index] += bits;
    window->done += logits.rows;
  }

  Session& session_;
  std::vector<int32_t> tokens_;
  const ScoreOptions& options_;
  ScoreResult* result_;
  std::vector<Window> running_;
  size_t next_ = 0;
  std::vector<StepLogits> logits_;
  std::vector<double> row_bits_;
};

}  // namespace

Status score(Session& session, std::string_view text, const ScoreOptions& options, ScoreResult* result) {
  *result = {};
  if (text.empty()) return invalid("score: text: has 0 bytes, needs at least one");
  if (options.window < 1) return invalid("score: window: has {}, needs at least 1", options.window);
  if (options.window > session.options().context) {
    return failed(StatusCode::exhausted, "score: window: has {} tokens, needs at most {} (the context)", options.window,
                  session.options().context);
  }
  if (session.model().info().bos_token < 0) return invalid("score: model: has no begin token, needs one");
  if (session.free_slots() == 0)
    return failed(StatusCode::exhausted, "score: slots: has none free, needs at least one");
  const SessionStatistics before = session.statistics();
  Status status = with_memory([] { return "score"; },
                              [&] {
                                std::vector<int32_t> tokens = session.model().encode(text, false);
                                result->bytes = static_cast<int64_t>(text.size());
                                result->tokens = static_cast<int64_t>(tokens.size());
                                return Scoring(session, std::move(tokens), options, result).run();
                              });
  result->statistics = since(session.statistics(), before);
  return status;
}

}  // namespace silt
