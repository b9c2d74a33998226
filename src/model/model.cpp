#include "silt/model.hpp"

#include <unistd.h>

#include <algorithm>

#include "core/no_memory.hpp"
#include "model/parts.hpp"
#include "model/safetensors.hpp"

namespace silt {
namespace {

constexpr size_t kMostConfigBytes = 16U << 20;

Status check_token_ids(const std::vector<int32_t>& tokens, int64_t vocab) {
  for (const int32_t token : tokens) {
    if (token >= vocab)
      return invalid("config.json: eos_token_id: has {}, needs less than vocab_size {}", token, vocab);
  }
  return {};
}

void merge(const std::vector<int32_t>& from, std::vector<int32_t>* tokens) {
  for (const int32_t token : from) {
    if (std::find(tokens->begin(), tokens->end(), token) == tokens->end()) tokens->push_back(token);
  }
}

Status read_generation_config(const std::string& folder, Model::Parts* parts) {
  const std::string path = folder + "/generation_config.json";
  if (access(path.c_str(), F_OK) != 0) return {};
  std::string text;
  SILT_TRY(read_text_file(path, kMostConfigBytes, &text));
  GenerationConfig config;
  SILT_TRY(parse_generation_config(text, "generation_config.json", &config));
  parts->sampling = config.sampling;
  merge(config.end_tokens, &parts->info.eos_tokens);
  return {};
}

void fill_info(const std::string& folder, Precision precision, Model::Parts* parts) {
  const ModelConfig& config = parts->config;
  ModelInfo& info = parts->info;
  info.folder = folder;
  info.architecture = config.architecture;
  for (int64_t i = 0; i < config.layers(); ++i) {
    info.layers.push_back(
        {config.attention[static_cast<size_t>(i)], config.dense(i) ? FeedForwardKind::dense : FeedForwardKind::moe});
  }
  info.hidden_size = config.hidden;
  info.vocab_size = config.vocab;
  info.kda_heads = config.kda.heads;
  info.mla_heads = config.mla.heads;
  info.attn_res_blocks = config.depth_blocks();
  info.experts = config.ffn.experts;
  info.experts_per_token = config.ffn.chosen;
  info.context = config.context;
  info.parameters = parts->weights.values;
  info.checkpoint_bytes = parts->weights.checkpoint_bytes;
  info.resident_bytes = parts->weights.resident_bytes;
  info.precision = precision;
  info.products = describe_products(precision);
  info.bos_token = parts->tokenizer.begin_token;
}

Status load_parts(const std::string& folder, const ModelOptions& options, Model::Parts* parts) {
  if (options.precision != Precision::bf16 && options.precision != Precision::f32) {
    return invalid("model: precision: has {}, needs bf16 or f32", static_cast<int>(options.precision));
  }
  if (options.threads < 0) return invalid("model: threads: has {}, needs 0 (all cores) or more", options.threads);
  std::string text;
  SILT_TRY(read_text_file(folder + "/config.json", kMostConfigBytes, &text));
  SILT_TRY(parse_config(text, "config.json", &parts->config));
  SILT_TRY(read_text_file(folder + "/tokenizer_config.json", kMostConfigBytes, &text));
  SILT_TRY(parse_tokenizer(text, "tokenizer_config.json", parts->config.vocab, &parts->tokenizer));
  merge(parts->config.end_tokens, &parts->info.eos_tokens);
  merge(parts->tokenizer.end_tokens, &parts->info.eos_tokens);
  SILT_TRY(read_generation_config(folder, parts));
  SILT_TRY(check_token_ids(parts->info.eos_tokens, parts->config.vocab));
  Checkpoint checkpoint;
  SILT_TRY(Checkpoint::open(folder, &checkpoint));
  SILT_TRY(
      load_weights(checkpoint, parts->config, {options.precision, options.threads, options.progress}, &parts->weights));
  fill_info(folder, options.precision, parts);
  return {};
}

}  // namespace

Model::Model(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Model::~Model() = default;

Status Model::load(const std::string& folder, const ModelOptions& options, std::shared_ptr<const Model>* model) {
  return with_memory([&] { return folder; },
                     [&]() -> Status {
                       auto parts = std::make_unique<Parts>();
                       SILT_TRY(load_parts(folder, options, parts.get()));
                       *model = std::shared_ptr<const Model>(new Model(std::move(parts)));
                       return {};
                     });
}

const ModelInfo& Model::info() const { return parts_->info; }
const Sampling& Model::sampling_defaults() const { return parts_->sampling; }
const Model::Parts& Model::parts() const { return *parts_; }

std::vector<int32_t> Model::encode(std::string_view text, bool begin) const {
  return parts_->tokenizer.encode(text, begin);
}
std::string Model::decode(std::span<const int32_t> tokens) const { return parts_->tokenizer.decode(tokens); }

}  // namespace silt
