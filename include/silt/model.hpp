// The decoder: a Kimi-K3-family checkpoint to text, on silt's operators. What it loads and how: src/model/contract.md.
//
//   std::shared_ptr<const silt::Model> model;
//   std::unique_ptr<silt::Session> session;
//   status = silt::Model::load("models/k3-mini", {}, &model);
//   status = silt::Session::create(model, {}, &session);
//   const std::vector<int32_t> prompt = model->encode("The whale");
//   status = silt::generate(*session, {{prompt}}, {}, &result);      // result.completions[0].text
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "silt/export.hpp"
#include "silt/status.hpp"

namespace silt {

/// How activations are kept between operators. The recurrent state and everything inside an operator are fp32 in both.
enum class Precision : int32_t {
  bf16 = 0,  ///< bf16 weights and activations
  f32 = 1,   ///< exact mode: bf16 weights widened, fp32 activations, no rounding anywhere
};

struct ModelOptions {
  Precision precision = Precision::bf16;
  int32_t threads = 0;  ///< for loading; 0: every core the process may use
  /// Called with 0..1 while weights are read and packed; false ends the call with an error.
  std::function<bool(double fraction)> progress{};
};

enum class AttentionKind : int32_t { kda = 0, mla = 1 };
enum class FeedForwardKind : int32_t { dense = 0, moe = 1 };

struct LayerInfo {
  AttentionKind attention = AttentionKind::kda;
  FeedForwardKind feed_forward = FeedForwardKind::dense;
};

/// What a model is. Sizes that an architecture does not have are 0.
struct ModelInfo {
  std::string folder;
  std::string architecture;  ///< model_type of config.json
  std::vector<LayerInfo> layers;
  int64_t hidden_size = 0;
  int64_t vocab_size = 0;
  int64_t kda_heads = 0;
  int64_t mla_heads = 0;
  int64_t attn_res_blocks = 0;  ///< depth blocks; 0: ordinary residuals
  int64_t experts = 0;
  int64_t experts_per_token = 0;
  int64_t context = 0;           ///< max_position_embeddings
  int64_t parameters = 0;        ///< values in the checkpoint that the decoder uses
  int64_t checkpoint_bytes = 0;  ///< bytes of these tensors in the files
  int64_t resident_bytes = 0;    ///< bytes of the prepared weights in memory
  Precision precision = Precision::bf16;
  std::string products;    ///< how matrix products run here, in words
  int32_t bos_token = -1;  ///< -1: none
  std::vector<int32_t> eos_tokens;
};

/// How the next token is taken from the logits. Temperature 0 takes the best one.
struct Sampling {
  float temperature = 0.0F;  ///< finite, >= 0
  int32_t top_k = 0;         ///< 0: all
  float top_p = 1.0F;        ///< in (0, 1]
  uint64_t seed = 0;         ///< prompt i of a call draws from its own stream, made of the seed and i
};

/// A loaded checkpoint; immutable, shared by sessions.
class SILT_API Model {
 public:
  /// Reads config.json, tokenizer_config.json, generation_config.json and the safetensors of a folder. Errors name
  /// the file, the field or the tensor, what was found and what is needed.
  static Status load(const std::string& folder, const ModelOptions& options, std::shared_ptr<const Model>* model);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  [[nodiscard]] const ModelInfo& info() const;
  /// generation_config.json; greedy where there is none or do_sample is false.
  [[nodiscard]] const Sampling& sampling_defaults() const;

  /// Tokens of a text, which may be any bytes. With `begin` the token that starts every sequence comes first.
  [[nodiscard]] std::vector<int32_t> encode(std::string_view text, bool begin = true) const;
  /// The bytes of the tokens; special tokens have none. Not necessarily valid UTF-8.
  [[nodiscard]] std::string decode(std::span<const int32_t> tokens) const;

  struct Parts;
  [[nodiscard]] const Parts& parts() const;

 private:
  explicit Model(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

/// An intermediate tensor of a step, as fp32, row-major; valid during the call. Rows are the tokens of the step.
struct TraceTensor {
  std::string_view name;  ///< "layers.3.mla_q"; the names are those of models/k3-mini/goldens/README.md
  const float* data = nullptr;
  std::vector<int64_t> shape;
};

struct SessionOptions {
  int32_t slots = 8;            ///< sequences that can be open at once
  int64_t context = 0;          ///< tokens that a sequence can hold; 0: max_position_embeddings
  int64_t prefill_chunk = 256;  ///< most tokens that go through the layers at once; more are cut into pieces
  int32_t threads = 0;          ///< 0: every core the process may use
  /// Called for every intermediate tensor of every step. Tracing costs time and memory.
  std::function<void(const TraceTensor&)> trace{};
};

enum class LogitsOf : int32_t { last = 0, all = 1, none = 2 };

/// What one sequence does in a step: these tokens come next.
struct StepInput {
  int32_t slot = -1;
  std::span<const int32_t> tokens{};  ///< at least one
  LogitsOf logits = LogitsOf::last;
};

/// fp32 logits of one input, [rows, vocab_size]; memory of the session, valid until its next step.
struct StepLogits {
  std::span<const float> values;
  int64_t rows = 0;
};

/// Tokens and time since the start of the session. A step counts as decode where every input has one token and
/// continues a sequence that has tokens already.
struct SessionStatistics {
  int64_t prefill_tokens = 0;
  int64_t decode_tokens = 0;
  double prefill_seconds = 0;
  double decode_seconds = 0;
};

/// Sequences in flight: each open one has a slot with its convolution history, recurrent state and MLA cache. Used by
/// one thread at a time; different sessions of one model may run at once.
class SILT_API Session {
 public:
  static Status create(std::shared_ptr<const Model> model, const SessionOptions& options,
                       std::unique_ptr<Session>* session);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// A slot with an empty sequence, 0..slots-1; `exhausted` where all are taken.
  Status open(int32_t* slot);
  Status release(int32_t slot);
  /// Advances the sequences of distinct open slots. On an error nothing has changed: an unknown token or slot, a slot
  /// twice, or a sequence that would outgrow its context (`exhausted`).
  Status step(std::span<const StepInput> inputs, std::vector<StepLogits>* logits);

  [[nodiscard]] int64_t length(int32_t slot) const;  ///< tokens of an open sequence; -1 where the slot is not open
  [[nodiscard]] int32_t free_slots() const;
  [[nodiscard]] const Model& model() const;
  [[nodiscard]] const SessionOptions& options() const;  ///< with the defaults filled in
  [[nodiscard]] const SessionStatistics& statistics() const;
  [[nodiscard]] int64_t memory_bytes() const;  ///< of slots and scratch

  struct Parts;

 private:
  explicit Session(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

enum class StopReason : int32_t {
  end_of_text = 0,  ///< the model wrote an end token
  length = 1,       ///< max_tokens
  stop_string = 2,
  context = 3,    ///< the slot is full
  cancelled = 4,  ///< a callback said so
};
SILT_API std::string_view to_string(StopReason reason);

struct GenerateOptions {
  Sampling sampling{};
  int64_t max_tokens = 256;
  std::vector<std::string> stop{};  ///< the text ends before the first of these that appears; none may be empty
  bool ignore_end = false;          ///< go on after an end token
  /// New text of prompt `index`: always valid UTF-8, an incomplete character is held back until the rest of it comes,
  /// an invalid byte becomes U+FFFD. Text that could begin a stop string is held back too. False cancels the call.
  std::function<bool(size_t index, std::string_view text)> on_text{};
  /// Prompt tokens processed so far, and how many there are in the call. False cancels.
  std::function<bool(int64_t done, int64_t total)> on_prefill{};
};

struct Completion {
  std::vector<int32_t> tokens;  ///< as taken, an end token included
  std::string text;             ///< valid UTF-8; the sum of what on_text got
  StopReason reason = StopReason::length;
};

struct GenerateResult {
  std::vector<Completion> completions;  ///< one per prompt
  SessionStatistics statistics;         ///< of this call
};

/// Continues every prompt (token ids, at least one each). More prompts than free slots wait for their turn. An error
/// (an empty prompt, one that does not fit the context) comes before any work.
SILT_API Status generate(Session& session, std::span<const std::vector<int32_t>> prompts,
                         const GenerateOptions& options, GenerateResult* result);

struct ScoreOptions {
  int64_t window = 1024;  ///< tokens; each window is predicted from the begin token and its own earlier tokens
  std::function<bool(int64_t done, int64_t total)> on_progress{};  ///< tokens; false ends the call with an error
};

struct ScoreResult {
  int64_t bytes = 0;
  int64_t tokens = 0;
  double bits = 0;                      ///< sum of -log2 p
  std::vector<double> bits_per_window;  ///< the last window may be shorter
  SessionStatistics statistics;
  [[nodiscard]] double bits_per_byte() const { return bytes == 0 ? 0 : bits / static_cast<double>(bytes); }
};

/// What the text costs under the model. Uses every free slot.
SILT_API Status score(Session& session, std::string_view text, const ScoreOptions& options, ScoreResult* result);

}  // namespace silt
