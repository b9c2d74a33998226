#include "model/test/checkpoint_writer.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace silt {

using Json = nlohmann::json;

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "silt-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
  path_ = pattern;
}
TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}
void TemporaryFolder::write(const std::string& name, std::string_view bytes) const {
  std::ofstream file(path_ / name, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.good()) throw std::runtime_error("cannot write " + name);
}

std::string safetensors_image(const std::string& header, const std::string& data) {
  std::string image;
  for (size_t i = 0; i < 8; ++i) image += static_cast<char>(static_cast<uint64_t>(header.size()) >> (8 * i) & 255U);
  return image + header + data;
}

std::string safetensors_image(const FileTensors& tensors) {
  Json header;
  header["__metadata__"] = {{"format", "pt"}};
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  return safetensors_image(header.dump(), data);
}

namespace {

template <class T>
void append(std::string* bytes, T value) {
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  bytes->append(raw, sizeof value);
}

}  // namespace

void SyntheticModel::add(const std::string& name, std::vector<int64_t> shape, double scale, double offset, bool fp32) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  FileTensor tensor{fp32 ? "F32" : "BF16", std::move(shape), {}};
  std::vector<double>& stored = values[name];
  for (int64_t i = 0; i < count; ++i) {
    const float value = static_cast<float>(offset) + random_.uniform(-1.0F, 1.0F) * static_cast<float>(scale);
    if (fp32) {
      append(&tensor.bytes, value);
      stored.push_back(static_cast<double>(value));
    } else {
      append(&tensor.bytes, to_bf16(value));
      stored.push_back(static_cast<double>(to_float(to_bf16(value))));
    }
  }
  files[(variant.nested ? "language_model." : "") + name] = std::move(tensor);
}

void SyntheticModel::add_matrix(const std::string& name, int64_t rows, int64_t cols) {
  // Uniform values of this width give outputs of about the inputs' size.
  add(name + ".weight", {rows, cols}, std::sqrt(3.0 / static_cast<double>(cols)), 0, variant.fp32_tensors);
}

void SyntheticModel::add_mxfp4(const std::string& name, int64_t rows, int64_t cols) {
  const std::string full = (variant.nested ? "language_model." : "") + name;
  FileTensor packed{"U8", {rows, cols / 2}, {}};
  FileTensor scales{"U8", {rows, cols / 32}, {}};
  std::vector<double>& stored = values[name + ".weight"];
  stored.resize(static_cast<size_t>(rows * cols));
  std::vector<int> exponents;
  for (int64_t i = 0; i < rows * cols / 32; ++i) {
    exponents.push_back(static_cast<int>(random_.below(3)) - 5);
    scales.bytes += static_cast<char>(exponents.back() + 127);
  }
  for (int64_t i = 0; i < rows * cols / 2; ++i) {
    const auto byte = static_cast<unsigned>(random_.below(256));
    packed.bytes += static_cast<char>(byte);
    for (const int64_t half : {0, 1}) {
      const unsigned nibble = half == 0 ? byte & 15U : byte >> 4U;
      const int exponent = static_cast<int>(nibble >> 1U & 3U);
      const double mantissa = static_cast<double>(nibble & 1U);
      const double magnitude = exponent == 0 ? mantissa * 0.5 : std::ldexp(1.0 + mantissa * 0.5, exponent - 1);
      const int64_t column = 2 * i + half;
      stored[static_cast<size_t>(column)] =
          std::ldexp((nibble & 8U) != 0 ? -magnitude : magnitude, exponents[static_cast<size_t>(column / 32)]);
    }
  }
  files[full + ".weight_packed"] = std::move(packed);
  files[full + ".weight_scale"] = std::move(scales);
}

void SyntheticModel::add_norm(const std::string& name, int64_t size) { add(name + ".weight", {size}, 0.3, 1.0, false); }

void SyntheticModel::add_kda(const std::string& name) {
  const int64_t d = Variant::kHidden;
  const int64_t h = Variant::kKdaHeads;
  const int64_t p = h * 128;
  for (const char* part : {"q", "k", "v"}) {
    add_matrix(fmt::format("{}{}_proj", name, part), p, d);
    const std::vector<int64_t> shape = variant.nested ? std::vector<int64_t>{p, 1, 4} : std::vector<int64_t>{p, 4};
    add(fmt::format("{}{}_conv1d.weight", name, part), shape, 0.6, 0.1, true);
  }
  add_matrix(name + "f_a_proj", 128, d);
  add_matrix(name + "f_b_proj", p, 128);
  add_matrix(name + "b_proj", h, d);
  if (variant.full_rank_gate) {
    add_matrix(name + "g_proj", p, d);
  } else {
    add_matrix(name + "g_a_proj", 128, d);
    add_matrix(name + "g_b_proj", p, 128);
  }
  const std::vector<int64_t> a_log_shape =
      variant.long_a_log ? std::vector<int64_t>{h + 3} : std::vector<int64_t>{1, 1, h, 1};
  add(name + "A_log", a_log_shape, 1.0, 0.2, true);
  add(name + "dt_bias", {p}, 1.0, -0.5, true);
  add(name + "o_norm.weight", {128}, 0.3, 1.0, true);
  add_matrix(name + "o_proj", d, p);
}

void SyntheticModel::add_mla(const std::string& name) {
  using V = Variant;
  const int64_t d = V::kHidden;
  const int64_t queries = V::kMlaHeads * (V::kNope + V::kShared);
  if (variant.query_rank) {
    add_matrix(name + "q_a_proj", V::kQueryRank, d);
    add_norm(name + "q_a_layernorm", V::kQueryRank);
    add_matrix(name + "q_b_proj", queries, V::kQueryRank);
  } else {
    add_matrix(name + "q_proj", queries, d);
  }
  add_matrix(name + "kv_a_proj_with_mqa", V::kKvRank + V::kShared, d);
  add_norm(name + "kv_a_layernorm", V::kKvRank);
  add_matrix(name + "kv_b_proj", V::kMlaHeads * (V::kNope + V::kValue), V::kKvRank);
  if (variant.mla_gate) add_matrix(name + "g_proj", V::kMlaHeads * V::kValue, d);
  add_matrix(name + "o_proj", d, V::kMlaHeads * V::kValue);
}

void SyntheticModel::add_mlp(const std::string& name, int64_t width) {
  add_matrix(name + "gate_proj", width, Variant::kHidden);
  add_matrix(name + "up_proj", width, Variant::kHidden);
  add_matrix(name + "down_proj", Variant::kHidden, width);
}

void SyntheticModel::add_moe(const std::string& name) {
  using V = Variant;
  const int64_t in = variant.latent ? V::kLatent : V::kHidden;
  add_matrix(name + "gate", variant.experts, V::kHidden);
  add(name + "gate.e_score_correction_bias", {variant.experts}, 0.3, 0.0, true);
  if (variant.latent) {
    add_matrix(name + "routed_expert_down_proj", in, V::kHidden);
    add_matrix(name + "routed_expert_up_proj", V::kHidden, in);
    if (variant.latent_norm) add_norm(name + "routed_expert_norm", in);
  }
  for (int64_t e = 0; e < variant.experts; ++e) {
    const auto matrix = [&](const char* part, int64_t rows, int64_t cols) {
      const std::string full = fmt::format("{}experts.{}.{}", name, e, part);
      variant.mxfp4 ? add_mxfp4(full, rows, cols) : add_matrix(full, rows, cols);
    };
    matrix("w1", V::kExpertWidth, in);
    matrix("w3", V::kExpertWidth, in);
    matrix("w2", in, V::kExpertWidth);
  }
  if (variant.shared_experts > 0) add_mlp(name + "shared_experts.", variant.shared_experts * V::kExpertWidth);
}

void SyntheticModel::add_layer(int64_t index) {
  const std::string name = fmt::format("model.layers.{}.", index);
  add_norm(name + "input_layernorm", Variant::kHidden);
  add_norm(name + "post_attention_layernorm", Variant::kHidden);
  if (variant.attn_res_block > 0) {
    for (const char* part : {"self_attention_res", "mlp_res"}) {
      add_norm(name + part + "_norm", Variant::kHidden);
      add(name + part + "_proj.weight", {1, Variant::kHidden}, 0.5, 0.0, false);
    }
  }
  variant.is_mla(index) ? add_mla(name + "self_attn.") : add_kda(name + "self_attn.");
  if (variant.experts == 0 || index == 0) {
    add_mlp(name + "mlp.", Variant::kDense);
  } else {
    add_moe(name + "block_sparse_moe.");
  }
}

std::string SyntheticModel::make_config() const {
  using V = Variant;
  Json c = {{"model_type", "kimi_linear"},
            {"vocab_size", V::kVocab},
            {"hidden_size", V::kHidden},
            {"num_hidden_layers", V::kLayers},
            {"rms_norm_eps", 1e-5},
            {"max_position_embeddings", 512},
            {"num_attention_heads", V::kMlaHeads},
            {"kv_lora_rank", V::kKvRank},
            {"qk_nope_head_dim", V::kNope},
            {"qk_rope_head_dim", V::kShared},
            {"v_head_dim", V::kValue},
            {"mla_use_nope", true},
            {"intermediate_size", V::kDense},
            {"hidden_act", variant.situ ? "situ" : "silu"},
            {"tie_word_embeddings", variant.tied},
            {"eos_token_id", 257}};
  c["q_lora_rank"] = variant.query_rank ? Json(V::kQueryRank) : Json();
  if (variant.mla_gate) c["mla_use_output_gate"] = true;
  if (variant.attn_res_block > 0) c["attn_res_block_size"] = variant.attn_res_block;
  if (variant.situ) {
    c["activation_situ_beta"] = 4.0;
    c["activation_situ_linear_beta"] = 25.0;
  }
  Json linear = {{"head_dim", 128},
                 {"num_heads", V::kKdaHeads},
                 {"short_conv_kernel_size", 4},
                 {"kda_layers", {1, 3, 4}},
                 {"full_attn_layers", {2, 5}}};
  if (variant.safe_gate) linear["gate_lower_bound"] = -5.0;
  if (variant.full_rank_gate) linear["use_full_rank_gate"] = true;
  c["linear_attn_config"] = linear;
  if (variant.experts > 0) {
    c.update({{"num_experts", variant.experts},
              {"num_experts_per_token", V::kChosen},
              {"num_shared_experts", variant.shared_experts},
              {"moe_intermediate_size", V::kExpertWidth},
              {"first_k_dense_replace", 1},
              {"moe_renormalize", variant.renormalize},
              {"moe_router_activation_func", "sigmoid"},
              {"routed_scaling_factor", variant.routed_scale}});
    if (variant.latent)
      c.update({{"routed_expert_hidden_size", V::kLatent}, {"latent_moe_use_norm", variant.latent_norm}});
  }
  if (variant.mxfp4) {
    c["quantization_config"] = {
        {"quant_method", "compressed-tensors"},
        {"format", "mxfp4-pack-quantized"},
        {"config_groups",
         {{"group_0",
           {{"weights", {{"num_bits", 4}, {"type", "float"}, {"group_size", 32}}}, {"input_activations", nullptr}}}}}};
  }
  if (!variant.nested) return c.dump(1);
  return Json({{"model_type", "kimi_k3"}, {"text_config", c}}).dump(1);
}

SyntheticModel::SyntheticModel(const Variant& v, uint64_t seed) : variant(v), random_(seed) {
  add("model.embed_tokens.weight", {Variant::kVocab, Variant::kHidden}, 1.0, 0.0, variant.fp32_tensors);
  for (int64_t i = 0; i < Variant::kLayers; ++i) add_layer(i);
  add_norm("model.norm", Variant::kHidden);
  if (variant.attn_res_block > 0) {
    add_norm("model.output_attn_res_norm", Variant::kHidden);
    add("model.output_attn_res_proj.weight", {1, Variant::kHidden}, 0.5, 0.0, false);
  }
  if (!variant.tied) add_matrix("lm_head", Variant::kVocab, Variant::kHidden);
  config = make_config();
}

void SyntheticModel::write(const TemporaryFolder& folder) const {
  folder.write("config.json", config);
  folder.write("tokenizer_config.json", R"({"type": "bytes", "bos_token_id": 256, "eos_token_id": 257})");
  if (variant.shards == 1) {
    folder.write("model.safetensors", safetensors_image(files));
    return;
  }
  std::vector<FileTensors> shards(static_cast<size_t>(variant.shards));
  Json map;
  size_t next = 0;
  for (const auto& [name, tensor] : files) {
    const size_t shard = next++ % shards.size();
    shards[shard][name] = tensor;
    map[name] = fmt::format("part-{}.safetensors", shard);
  }
  for (size_t i = 0; i < shards.size(); ++i)
    folder.write(fmt::format("part-{}.safetensors", i), safetensors_image(shards[i]));
  folder.write("model.safetensors.index.json", Json({{"weight_map", map}}).dump());
}

std::vector<Variant> synthetic_variants() {
  Variant kimi_linear{.name = "kimi_linear",
                      .attn_res_block = 0,
                      .safe_gate = false,
                      .full_rank_gate = false,
                      .query_rank = false,
                      .mla_gate = false,
                      .latent = false,
                      .latent_norm = false,
                      .situ = false,
                      .nested = false,
                      .shared_experts = 1,
                      .routed_scale = 2.446,
                      .long_a_log = false};
  std::vector<Variant> all = {{.name = "kimi_k3"}, kimi_linear};
  const auto from = [&](Variant variant, const char* name) -> Variant& {
    variant.name = name;
    return all.emplace_back(std::move(variant));
  };
  from(all[0], "k3_block_of_three").attn_res_block = 3;
  from(all[0], "k3_softplus").safe_gate = false;
  from(all[0], "k3_low_rank_gate").full_rank_gate = false;
  from(all[0], "k3_latent_without_norm").latent_norm = false;
  from(all[0], "k3_mxfp4").mxfp4 = true;
  from(all[0], "k3_sharded").shards = 3;
  from(all[0], "k3_all_dense").experts = 0;
  from(kimi_linear, "linear_mxfp4").mxfp4 = true;
  from(kimi_linear, "linear_no_shared_experts").shared_experts = 0;
  from(kimi_linear, "linear_tied").tied = true;
  from(kimi_linear, "linear_fp32_tensors").fp32_tensors = true;
  from(kimi_linear, "linear_not_renormalized").renormalize = false;
  from(kimi_linear, "linear_query_rank_and_gate").query_rank = true;
  all.back().mla_gate = true;
  return all;
}

}  // namespace silt
