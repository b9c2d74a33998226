#include "model/config.hpp"

#include <algorithm>

#include "core/log.hpp"
#include "core/status.hpp"
#include "model/json.hpp"

namespace silt {
namespace {

constexpr int64_t kMostLayers = 4096;
constexpr int64_t kMostVocab = int64_t{1} << 24;
/// Of one token in any activation: a session has at most 65,536 rows of them, and their bytes fit 64 bits by far.
constexpr int64_t kMostRowValues = int64_t{1} << 24;

/// The place of an object inside another: "config.json: text_config.linear_attn_config".
std::string inside(const std::string& where, std::string_view key) {
  return where + (where.find(": ") == std::string::npos ? ": " : ".") + std::string(key);
}

/// A field that must have this value where it is there.
void only(JsonFields& fields, std::string_view key, int64_t value) {
  if (fields.integer_or(key, value, INT32_MIN, INT32_MAX) != value) fields.refuse(key, fmt::format("{}", value));
}
void only(JsonFields& fields, std::string_view key, bool value) {
  if (fields.flag_or(key, value) != value) fields.refuse(key, value ? "true" : "false");
}
void only(JsonFields& fields, std::string_view key, std::string_view value) {
  if (fields.text_or(key, value) != value) fields.refuse(key, fmt::format("\"{}\"", value));
}

int64_t size_field(JsonFields& fields, std::string_view key) { return fields.integer(key, 1, kMostSize); }

/// Fields that say nothing about what the decoder computes.
void skip_known(const JsonFields& fields) {
  for (const std::string_view key : {"architectures",
                                     "auto_map",
                                     "dtype",
                                     "torch_dtype",
                                     "transformers_version",
                                     "use_cache",
                                     "initializer_range",
                                     "bos_token_id",
                                     "pad_token_id",
                                     "head_dim",
                                     "rope_theta",
                                     "rope_scaling",
                                     "rope_parameters",
                                     "model_max_length",
                                     "output_router_logits",
                                     "router_aux_loss_coef",
                                     "aux_loss_alpha",
                                     "seq_aux",
                                     "pretraining_tp",
                                     "attention_dropout",
                                     "num_nextn_predict_layers",
                                     "_name_or_path",
                                     "ep_size",
                                     "id2label",
                                     "label2id",
                                     "return_dict",
                                     "output_attentions",
                                     "output_hidden_states",
                                     "chunk_size_feed_forward",
                                     "is_encoder_decoder",
                                     "problem_type"}) {
    static_cast<void>(fields.has(key));
  }
}

void read_layers(JsonFields& text, JsonFields& linear, ModelConfig* config) {
  const int64_t layers = text.integer("num_hidden_layers", 1, kMostLayers);
  if (!text.status().ok()) return;
  config->attention.assign(static_cast<size_t>(layers), AttentionKind::kda);
  std::vector<int> named(config->attention.size());
  const auto mark = [&](std::string_view key, AttentionKind kind) {
    for (const int64_t layer : linear.integers_or_none(key, 1, layers)) {
      const auto index = static_cast<size_t>(layer - 1);
      if (named[index]++ != 0)
        linear.refuse(key, fmt::format("layer {} once in kda_layers or full_attn_layers", layer));
      config->attention[index] = kind;
    }
  };
  mark("kda_layers", AttentionKind::kda);
  mark("full_attn_layers", AttentionKind::mla);
  for (size_t i = 0; i < named.size(); ++i) {
    if (named[i] == 0) linear.refuse("kda_layers", fmt::format("layer {} here or in full_attn_layers", i + 1));
  }
}

void read_kda(JsonFields& linear, KdaConfig* kda) {
  kda->heads = linear.integer("num_heads", 1, kMostSize / kKdaWidth);
  if (size_field(linear, "head_dim") != kKdaWidth) linear.refuse("head_dim", fmt::format("{}", kKdaWidth));
  if (size_field(linear, "short_conv_kernel_size") != kConvTaps) {
    linear.refuse("short_conv_kernel_size", fmt::format("{}", kConvTaps));
  }
  kda->full_rank_gate = linear.flag_or("use_full_rank_gate", false);
  kda->safe_gate = linear.has("gate_lower_bound");
  if (kda->safe_gate) {
    const double bound = linear.real("gate_lower_bound", -5.0, 0.0);
    if (!(bound < 0)) linear.refuse("gate_lower_bound", "a number in [-5, 0)");
    kda->lower_bound = static_cast<float>(bound);
  }
}

void read_mla(JsonFields& text, MlaConfig* mla) {
  mla->heads = size_field(text, "num_attention_heads");
  only(text, "num_key_value_heads", mla->heads);
  mla->query_rank = text.integer_or("q_lora_rank", 0, 1, kMostSize);
  mla->latent = size_field(text, "kv_lora_rank");
  mla->nope = size_field(text, "qk_nope_head_dim");
  mla->shared = size_field(text, "qk_rope_head_dim");
  mla->value = size_field(text, "v_head_dim");
  if (!text.flag_or("mla_use_nope", false)) text.refuse("mla_use_nope", "true (positions are not rotated)");
  mla->output_gate = text.flag_or("mla_use_output_gate", false);
  // Bounds of the widths of one token: all heads together.
  if (mla->heads * std::max({mla->query_width(), mla->value, mla->cache_width()}) > kMostRowValues) {
    text.refuse("num_attention_heads", "heads times width at most 2^24");
  }
}

void read_experts(JsonFields& text, FeedForwardConfig* ffn) {
  ffn->chosen = text.integer("num_experts_per_token", 1, ffn->experts);
  ffn->expert_width = size_field(text, "moe_intermediate_size");
  ffn->shared_width = text.integer_or("num_shared_experts", 0, 0, 1024) * ffn->expert_width;
  if (ffn->shared_width > kMostSize) text.refuse("num_shared_experts", "a shared width of at most 2^20");
  ffn->latent = text.integer_or("routed_expert_hidden_size", 0, 1, kMostSize);
  ffn->latent_norm = text.flag_or("latent_moe_use_norm", false);
  if (ffn->latent_norm && ffn->latent == 0) text.refuse("latent_moe_use_norm", "routed_expert_hidden_size beside it");
  ffn->renormalize = text.flag_or("moe_renormalize", true);
  ffn->routed_scale = static_cast<float>(text.real_or("routed_scaling_factor", 1.0, 0.0, 1e6));
  only(text, "moe_router_activation_func", std::string_view("sigmoid"));
  only(text, "topk_method", std::string_view("noaux_tc"));
  only(text, "moe_layer_freq", int64_t{1});
  only(text, "num_expert_group", int64_t{1});
  only(text, "topk_group", int64_t{1});
  static_cast<void>(text.flag_or("use_grouped_topk", false));  // with one group there is nothing to group
}

void read_feed_forward(JsonFields& text, int64_t layers, FeedForwardConfig* ffn) {
  if (text.choice("hidden_act", {"situ", "silu"}) == 0) {
    ffn->activation = Activation::situ;
    ffn->situ_beta = static_cast<float>(text.real("activation_situ_beta", 1e-3, 1e6));
    ffn->situ_linear_beta = static_cast<float>(text.real("activation_situ_linear_beta", 1e-3, 1e6));
  } else {
    ffn->activation = Activation::swiglu;
    for (const std::string_view key : {"activation_situ_beta", "activation_situ_linear_beta"}) {
      if (text.has(key)) text.refuse(key, "no such field with hidden_act \"silu\"");
    }
  }
  ffn->experts = text.integer_or("num_experts", 0, 0, kMostSize);
  ffn->dense_layers = ffn->experts == 0 ? layers : text.integer_or("first_k_dense_replace", 0, 0, layers);
  if (ffn->dense_layers > 0) ffn->dense_width = size_field(text, "intermediate_size");
  if (ffn->experts > 0) read_experts(text, ffn);
}

Status check_quantization_weights(const Json& group, const std::string& where) {
  JsonFields fields(group, where);
  SILT_TRY(fields.status());
  only(fields, "format", std::string_view("mxfp4-pack-quantized"));
  if (fields.has("input_activations")) fields.refuse("input_activations", "null (activations are not quantised)");
  if (const Json* weights = fields.object("weights"); weights != nullptr) {
    JsonFields inner(*weights, inside(where, "weights"));
    only(inner, "num_bits", int64_t{4});
    only(inner, "type", std::string_view("float"));
    only(inner, "group_size", int64_t{32});
    only(inner, "symmetric", true);
    SILT_TRY(inner.status());
  }
  return fields.status();
}

/// compressed-tensors, MXFP4 weights and nothing else.
Status read_quantization(const Json& object, const std::string& where, ModelConfig* config) {
  JsonFields fields(object, where);
  if (fields.text("quant_method") != "compressed-tensors") fields.refuse("quant_method", "\"compressed-tensors\"");
  bool named = fields.has("format");
  only(fields, "format", std::string_view("mxfp4-pack-quantized"));
  if (fields.has("kv_cache_scheme")) fields.refuse("kv_cache_scheme", "null");
  if (const Json* groups = fields.object_or_none("config_groups"); groups != nullptr) {
    for (const auto& group : groups->items()) {
      SILT_TRY(check_quantization_weights(group.value(), inside(where, "config_groups." + printable(group.key()))));
      named = named || group.value().contains("format");
    }
  }
  if (!named) fields.refuse("format", "\"mxfp4-pack-quantized\"");
  config->mxfp4 = true;
  return fields.status();
}

void read_end_tokens(JsonFields& fields, std::vector<int32_t>* tokens) {
  for (const int64_t token : fields.integers_or_none("eos_token_id", 0, kMostVocab)) {
    const auto narrow = static_cast<int32_t>(token);
    if (std::find(tokens->begin(), tokens->end(), narrow) == tokens->end()) tokens->push_back(narrow);
  }
}

Status read_text(JsonFields& text, ModelConfig* config) {
  config->vocab = text.integer("vocab_size", 1, kMostVocab);
  config->hidden = size_field(text, "hidden_size");
  config->eps = static_cast<float>(text.real("rms_norm_eps", 0.0, 1.0));
  config->context = text.integer_or("max_position_embeddings", 4096, 1, INT32_MAX);
  only(text, "num_nextn_predict_layers", int64_t{0});
  const Json* linear_object = text.object("linear_attn_config");
  SILT_TRY(text.status());
  JsonFields linear(*linear_object, inside(text.where(), "linear_attn_config"));
  read_layers(text, linear, config);
  read_kda(linear, &config->kda);
  SILT_TRY(linear.status());
  read_mla(text, &config->mla);
  read_feed_forward(text, config->layers(), &config->ffn);
  config->attn_res_block = text.integer_or("attn_res_block_size", 0, 1, config->layers());
  read_end_tokens(text, &config->end_tokens);
  SILT_TRY(text.status());
  for (const std::string& key : linear.unread()) {
    // Every field of this object shapes the operator, so an unknown one cannot be passed over.
    return invalid("{}: {}: is not known, needs to be absent", linear.where(), printable(key));
  }
  return {};
}

void warn_of_unread(const JsonFields& fields) {
  std::string names;
  for (const std::string& key : fields.unread()) names += (names.empty() ? "" : ", ") + printable(key);
  if (!names.empty()) log_warning(fmt::format("{}: fields that the decoder does not know: {}", fields.where(), names));
}

}  // namespace

Status parse_config(std::string_view text, std::string_view file, ModelConfig* config) {
  *config = {};
  JsonDocument document;
  SILT_TRY(parse_json(text, file, &document));
  const Json& json = document.json;
  JsonFields top(json, std::string(file));
  SILT_TRY(top.status());
  const Json* inner = top.object_or_none("text_config");
  SILT_TRY(top.status());
  const bool nested = inner != nullptr;
  JsonFields fields(nested ? *inner : json, nested ? std::string(file) + ": text_config" : std::string(file));
  config->architecture = nested ? top.text("model_type") : fields.text("model_type");
  if (nested && config->architecture != "kimi_k3") top.refuse("model_type", "\"kimi_k3\"");
  const std::string inner_type = fields.text_or("model_type", "kimi_linear");
  if (inner_type != "kimi_linear" && inner_type != "kimi_k3")
    fields.refuse("model_type", "\"kimi_linear\" or \"kimi_k3\"");
  SILT_TRY(top.status());
  SILT_TRY(fields.status());
  SILT_TRY(read_text(fields, config));
  config->tied_embeddings = fields.flag_or("tie_word_embeddings", false) || top.flag_or("tie_word_embeddings", false);
  if (nested) read_end_tokens(top, &config->end_tokens);
  for (JsonFields* level : {&fields, &top}) {
    const Json* quantization = level->object_or_none("quantization_config");
    SILT_TRY(level->status());
    if (quantization == nullptr) continue;
    SILT_TRY(read_quantization(*quantization, inside(level->where(), "quantization_config"), config));
  }
  skip_known(fields);
  warn_of_unread(fields);
  return {};
}

Status parse_generation_config(std::string_view text, std::string_view file, GenerationConfig* config) {
  *config = {};
  JsonDocument document;
  SILT_TRY(parse_json(text, file, &document));
  const Json& json = document.json;
  JsonFields fields(json, std::string(file));
  SILT_TRY(fields.status());
  read_end_tokens(fields, &config->end_tokens);
  const bool sampled = fields.flag_or("do_sample", false);
  const double temperature = fields.real_or("temperature", 1.0, 0.0, 100.0);
  const int64_t top_k = fields.integer_or("top_k", 0, 0, INT32_MAX);
  const double top_p = fields.real_or("top_p", 1.0, 0.0, 1.0);
  if (!(top_p > 0)) fields.refuse("top_p", "a number in (0, 1]");
  if (sampled) {
    config->sampling.temperature = static_cast<float>(temperature);
    config->sampling.top_k = static_cast<int32_t>(top_k);
    config->sampling.top_p = static_cast<float>(top_p);
  }
  return fields.status();
}

}  // namespace silt
