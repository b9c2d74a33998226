// Sequences that come and go at random for a while, against a replay of each alone: the same tokens, memory that stays,
// no slot lost. usage: soak [SECONDS [SEED]]     (60 s; scripts/soak runs it for longer)
//
// Greedy in exact mode: between kernels and batches logits differ by fp32 rounding, which moves a token only where two
// logits are as near as that.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "silt/model.hpp"

#include "proof/random.hpp"

namespace silt {
namespace {

constexpr int32_t kSlots = 6;
constexpr int64_t kContext = 160;

struct Sequence {
  int32_t slot = -1;
  std::vector<int32_t> prompt;
  std::vector<int32_t> tokens;  ///< generated so far
  int64_t wanted = 0;
  bool fed = false;  ///< the prompt is in the slot
};

struct Totals {
  int64_t steps = 0;
  int64_t tokens = 0;
  int64_t finished = 0;
  int64_t cancelled = 0;
};

int64_t resident_bytes() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

[[noreturn]] void stop(const std::string& text) {
  fmt::print(stderr, "soak: {}\n", text);
  std::exit(1);
}

void demand(const Status& status) {
  if (!status.ok()) stop(std::string(status.message()));
}

int32_t likeliest(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

/// The same sequence alone, the prompt as a whole and then token by token.
std::vector<int32_t> replay(Session& session, const Sequence& sequence) {
  int32_t slot = -1;
  demand(session.open(&slot));
  std::vector<int32_t> tokens;
  std::vector<StepLogits> logits;
  std::span<const int32_t> next = sequence.prompt;
  while (tokens.size() < sequence.tokens.size()) {
    const StepInput input{slot, next, LogitsOf::last};
    demand(session.step({&input, 1}, &logits));
    tokens.push_back(likeliest(logits[0].values));
    next = std::span(tokens).last(1);
  }
  demand(session.release(slot));
  return tokens;
}

class Soak {
 public:
  Soak(std::shared_ptr<const Model> model, uint64_t seed) : vocab_(model->info().vocab_size), random_(seed) {
    demand(Session::create(model, {.slots = kSlots, .context = kContext}, &together_));
    demand(Session::create(model, {.slots = 1, .context = kContext}, &alone_));
  }

  /// Some arrive, a random subset steps, some are cancelled midway; what is over is replayed.
  void round() {
    while (together_->free_slots() > 0 && random_.below(3) == 0) arrive();
    step();
    for (size_t i = live_.size(); i-- > 0;) {
      Sequence& sequence = live_[i];
      const bool done = static_cast<int64_t>(sequence.tokens.size()) >= sequence.wanted;
      const bool cancelled = !done && random_.below(60) == 0;
      if (!done && !cancelled) continue;
      (done ? totals_.finished : totals_.cancelled) += 1;
      leave(i);
    }
  }

  void end() {
    while (!live_.empty()) leave(live_.size() - 1);
    if (together_->free_slots() != kSlots)
      stop(fmt::format("{} of {} slots are free", together_->free_slots(), kSlots));
    int32_t slots[kSlots];
    for (int32_t& slot : slots) demand(together_->open(&slot));
    for (const int32_t slot : slots) demand(together_->release(slot));
  }

  [[nodiscard]] const Totals& totals() const { return totals_; }
  [[nodiscard]] int64_t slot_bytes() const { return together_->memory_bytes() / kSlots; }

 private:
  void arrive() {
    Sequence sequence;
    demand(together_->open(&sequence.slot));
    const int64_t length = 1 + random_.below(random_.below(4) == 0 ? 90 : 12);
    for (int64_t i = 0; i < length; ++i) sequence.prompt.push_back(static_cast<int32_t>(random_.below(vocab_)));
    sequence.wanted = 1 + random_.below(kContext - length - 1);
    live_.push_back(std::move(sequence));
  }

  void step() {
    std::vector<StepInput> inputs;
    std::vector<size_t> which;
    for (size_t i = 0; i < live_.size(); ++i) {
      if (random_.below(5) == 0) continue;  // not every sequence in every step
      const Sequence& sequence = live_[i];
      which.push_back(i);
      inputs.push_back({sequence.slot,
                        sequence.fed ? std::span<const int32_t>(sequence.tokens).last(1) : sequence.prompt,
                        LogitsOf::last});
    }
    if (inputs.empty()) return;
    std::vector<StepLogits> logits;
    demand(together_->step(inputs, &logits));
    for (size_t i = 0; i < which.size(); ++i) {
      Sequence& sequence = live_[which[i]];
      sequence.fed = true;
      sequence.tokens.push_back(likeliest(logits[i].values));
    }
    totals_.steps += 1;
    totals_.tokens += static_cast<int64_t>(which.size());
  }

  void leave(size_t i) {
    const Sequence sequence = std::move(live_[i]);
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(i));
    demand(together_->release(sequence.slot));
    const std::vector<int32_t> want = replay(*alone_, sequence);
    for (size_t t = 0; t < want.size(); ++t) {
      if (want[t] != sequence.tokens[t]) {
        stop(fmt::format("token {} behind a prompt of {}: has {}, needs {} as alone", t, sequence.prompt.size(),
                         sequence.tokens[t], want[t]));
      }
    }
  }

  int64_t vocab_;
  Random random_;
  std::unique_ptr<Session> together_;
  std::unique_ptr<Session> alone_;
  std::vector<Sequence> live_;
  Totals totals_;
};

int run(double seconds, uint64_t seed) {
  using Clock = std::chrono::steady_clock;
  std::shared_ptr<const Model> model;
  demand(Model::load(SILT_SOURCE_DIR "/models/k3-mini", {.precision = Precision::f32}, &model));
  Soak soak(model, seed);
  const auto begin = Clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  // The first quarter sizes the scratch of every thread.
  while (passed() < seconds / 4) soak.round();
  const int64_t before = resident_bytes();
  while (passed() < seconds) soak.round();
  soak.end();
  const int64_t grown = resident_bytes() - before;
  const Totals& totals = soak.totals();
  fmt::print("{:.0f} s, seed {}: {} steps, {} tokens, {} sequences finished, {} cancelled: as alone\n", passed(), seed,
             totals.steps, totals.tokens, totals.finished, totals.cancelled);
  fmt::print("memory: {} KiB, grown by {} KiB; a slot has {} KiB\n", before / 1024, grown / 1024,
             soak.slot_bytes() / 1024);
  if (totals.finished == 0 || totals.cancelled == 0) stop("needs sequences that finished and that were cancelled");
  if (grown >= soak.slot_bytes()) stop("memory has grown by a slot");
  return 0;
}

}  // namespace
}  // namespace silt

int main(int count, char** arguments) {
  const double seconds = count > 1 ? std::atof(arguments[1]) : 60;
  const uint64_t seed = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 1;
  if (!(seconds > 0)) silt::stop("SECONDS: needs a number above 0");
  return silt::run(seconds, seed);
}
