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

  /// What a step works out of its inputs; kept, so that a warm step allocates nothing.
  struct StepPlan {
    std::vector<char> seen;           ///< per slot
    std::vector<int64_t> taken;       ///< per input: tokens in passes so far
    std::vector<int64_t> first_row;   ///< per input: of the step's logits
    std::vector<size_t> pass_inputs;  ///< per segment of the pass: its input
    std::vector<int64_t> logit_rows;  ///< rows of the pass that have logits
    std::vector<int64_t> targets;     ///< and which row of the step's logits each becomes
  };

  std::shared_ptr<const Model> model;
  SessionOptions options;
  SessionStatistics statistics;
  std::vector<Slot> slots;
  SlotPools pools;
  Workspace work;
  Trace trace{{}};
  Pass pass;
  StepPlan plan;
  std::vector<float> logits;         ///< of the last step
  std::vector<float> packed_logits;  ///< of one pass, where a step has several

  explicit Parts(std::shared_ptr<const Model> m) : model(std::move(m)) {}
  Status check(std::span<const StepInput> inputs);
  class Step;
};

/// What a call adds to the statistics of its session.
SessionStatistics since(const SessionStatistics& now, const SessionStatistics& before);

}  // namespace silt
