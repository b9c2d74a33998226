// What is behind the public Model and Session.
#pragma once

#include "silt/model.hpp"

#include "model/decoder.hpp"
#include "model/tokenizer.hpp"

namespace silt {

struct Model::Parts {
  ModelInfo info;
  ModelConfig config;
  ModelWeights weights;
  Tokenizer tokenizer;
  Sampling sampling;
};

struct Session::Parts {
  struct Slot {
    bool open = false;
    bool broken = false;  ///< a step failed midway: its state is neither before nor after
    int64_t length = 0;
  };

  std::shared_ptr<const Model> model;
  SessionOptions options;
  SessionStatistics statistics;
  std::vector<Slot> slots;
  SlotPools pools;
  Workspace work;
  Trace trace{{}};
  Pass pass;
  std::vector<float> logits;         ///< of the last step
  std::vector<float> packed_logits;  ///< of one pass, where a step has several

  explicit Parts(std::shared_ptr<const Model> m) : model(std::move(m)) {}
  Status check(std::span<const StepInput> inputs) const;
  class Step;
};

/// What a call adds to the statistics of its session.
SessionStatistics since(const SessionStatistics& now, const SessionStatistics& before);

}  // namespace silt
