// Files that are broken or hostile: one clear line that names file, field or tensor, what was found and what is needed.
#include <sys/stat.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "model/config.hpp"
#include "model/test/checkpoint_writer.hpp"
#include "model/test/support.hpp"
#include "model/tokenizer.hpp"
#include "model/weights.hpp"

namespace silt {
namespace {

using Json = nlohmann::json;

/// One printable line.
void expect_one_line(const std::string& message) {
  for (const char c : message) EXPECT_TRUE(c >= 0x20 && c < 0x7f) << message;
}

std::span<const std::byte> bytes_of(const std::string& image) {
  return {reinterpret_cast<const std::byte*>(image.data()), image.size()};
}

TEST(Safetensors, ReadsWhatTheFormatAllows) {
  FileTensors tensors;
  tensors["a"] = {"F32", {2, 1}, std::string(8, '\1')};
  tensors["b"] = {"BF16", {}, std::string(2, '\2')};
  tensors["empty"] = {"U8", {0, 5}, ""};
  const std::string image = safetensors_image(tensors);
  TensorTable table;
  const Status status = parse_safetensors(bytes_of(image), "f", &table);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(table.size(), 3U);
  EXPECT_EQ(table["a"].shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(table["b"].elements(), 1);
  EXPECT_EQ(table["empty"].elements(), 0);
  EXPECT_EQ(image[table["b"].begin], '\2');
  const std::string nothing = safetensors_image("{}", "");
  EXPECT_TRUE(parse_safetensors(bytes_of(nothing), "f", &table).ok());
}

struct BadImage {
  std::string image;
  const char* text;
};

std::string entry(const char* body, size_t data) {
  return safetensors_image(std::string("{\"t\": ") + body + "}", std::string(data, 'x'));
}

TEST(Safetensors, RefusesBrokenAndHostileFiles) {
  std::string long_header = safetensors_image("{}", "");
  long_header[7] = '\x7f';
  const std::string deep = std::string(100000, '[');
  const BadImage cases[] = {
      {"", "f: has 0 bytes, needs at least 8"},
      {"1234567", "f: has 7 bytes, needs at least 8"},
      {long_header, "f: header: has length 9151314442816847874, needs at most 2"},
      {safetensors_image(std::string(10, ' '), "").substr(0, 12), "f: header: has length 10, needs at most 4"},
      {safetensors_image("{\"a\":", ""), "f: header: has no valid JSON at byte"},
      {safetensors_image("", ""), "f: header: has no valid JSON at byte"},
      {safetensors_image("[1]", ""), "f: header: has [1], needs an object"},
      {safetensors_image(deep, ""), "f: header: "},
      {safetensors_image("\xff\xfe", ""), "f: header: has no valid JSON at byte 1"},
      {entry("7", 0), "f: t: has 7, needs an object"},
      {entry(R"({"dtype":"F32","shape":[1]})", 4), "f: t: data_offsets: missing, needs two numbers"},
      {entry(R"({"shape":[1],"data_offsets":[0,4]})", 4), "f: t: dtype: missing, needs a string"},
      {entry(R"({"dtype":"F33","shape":[1],"data_offsets":[0,4]})", 4),
       "f: t: dtype: has \"F33\", needs a dtype of the"},
      {entry(R"({"dtype":4,"shape":[1],"data_offsets":[0,4]})", 4), "f: t: dtype: has 4, needs a string"},
      {entry(R"({"dtype":"F32","shape":1,"data_offsets":[0,4]})", 4), "f: t: shape: has 1, needs a list of sizes"},
      {entry(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})", 4),
       "f: t: shape: has [-1], needs a whole number in 0.."},
      {entry(R"({"dtype":"F32","shape":[1.5],"data_offsets":[0,4]})", 4),
       "f: t: shape: has [1.5], needs a whole number"},
      {entry(R"({"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]})", 4), "needs at most 8 axes"},
      {entry(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]})", 4),
       "needs a size that fits 64 bits"},
      {entry(R"({"dtype":"F32","shape":[9223372036854775807],"data_offsets":[0,4]})", 4),
       "needs a size that fits 64 bits"},
      {entry(R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]})", 4),
       "needs a whole number in 0.."},
      {entry(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4,8]})", 4),
       "f: t: data_offsets: has [0,4,8], needs two numbers"},
      {entry(R"({"dtype":"F32","shape":[1],"data_offsets":[0,8]})", 4),
       "f: t: data_offsets: has [0, 8], needs a range within the 4 bytes"},
      {entry(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})", 4),
       "f: t: data_offsets: has [4, 0], needs a range"},
      {entry(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})", 4),
       "f: t: data_offsets: has 4 bytes, needs 8 for F32 [2]"},
      {entry(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})", 9), "f: has 9 bytes behind the header, needs 4"},
      {entry(R"({"dtype":"F32","shape":[1],"data_offsets":[2,6]})", 6), "f: t: data_offsets: begins at 2, needs 0"},
      {entry(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4],"extra":1})", 4),
       "f: t: has a field \"extra\", needs dtype, shape"},
      {entry(R"({"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]})", 4),
       "f: header: dtype: is there twice"},
      {safetensors_image(
           R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
           "123456"),
       "f: b: data_offsets: begins at 2, needs 4"},
      {safetensors_image(
           R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
           "1234"),
       "f: header: a: is there twice, needs to be there once"},
      {safetensors_image("{\"a\\n\\u0007b\": 1}", ""), "f: a\\x0a\\x07b: has 1, needs an object"},
  };
  for (const BadImage& c : cases) {
    TensorTable table;
    const Status status = parse_safetensors(bytes_of(c.image), "f", &table);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument) << c.text;
    EXPECT_NE(status.message().find(c.text), std::string::npos) << "has: " << status.message() << "\nneeds: " << c.text;
    expect_one_line(status.message());
  }
}

const Json& good_config() {
  static const Json config = Json::parse(SyntheticModel({.name = "kimi_k3"}, 1).config);
  return config;
}

/// The config with a value put at a JSON pointer; null removes it.
std::string changed(const char* pointer, const Json& value) {
  Json config = good_config();
  const Json::json_pointer place(pointer);
  config[place] = value;
  return config.dump();
}

TEST(Config, RefusesWhatItDoesNotKnowByName) {
  struct Case {
    const char* pointer;
    Json value;
    const char* text;
  };
  const Json none;
  const Case cases[] = {
      {"/text_config/hidden_size", none, "text_config: hidden_size: missing, needs a whole number in 1..1048576"},
      {"/text_config/hidden_size", -3, "text_config: hidden_size: has -3, needs a whole number in 1..1048576"},
      {"/text_config/hidden_size", 0, "hidden_size: has 0, needs"},
      {"/text_config/hidden_size", 1e30, "hidden_size: has 1e+30, needs a whole number"},
      {"/text_config/hidden_size", "64", "hidden_size: has \"64\", needs a whole number"},
      {"/text_config/hidden_size", UINT64_MAX, "hidden_size: has 18446744073709551615, needs"},
      {"/text_config/vocab_size", int64_t{1} << 40,
       "vocab_size: has 1099511627776, needs a whole number in 1..16777216"},
      {"/text_config/num_hidden_layers", 100000, "num_hidden_layers: has 100000, needs a whole number in 1..4096"},
      {"/text_config/num_hidden_layers", 6, "kda_layers: has [1,3,4], needs layer 6 here or in full_attn_layers"},
      {"/text_config/num_hidden_layers", 4, "full_attn_layers: has [2,5], needs a whole number in 1..4"},
      {"/text_config/rms_norm_eps", -1, "rms_norm_eps: has -1, needs a number in 0..1"},
      {"/text_config/hidden_act", "gelu", "hidden_act: has \"gelu\", needs \"situ\" or \"silu\""},
      {"/text_config/activation_situ_beta", none, "activation_situ_beta: missing, needs a number"},
      {"/text_config/activation_situ_beta", 0, "activation_situ_beta: has 0, needs a number in 0.001"},
      {"/text_config/mla_use_nope", false, "mla_use_nope: has false, needs true (positions are not rotated)"},
      {"/text_config/num_key_value_heads", 1, "num_key_value_heads: has 1, needs 3"},
      {"/text_config/kv_lora_rank", none, "kv_lora_rank: missing"},
      {"/text_config/num_attention_heads", 1 << 20,
       "num_attention_heads: has 1048576, needs heads times width at most 2^24"},
      {"/text_config/num_experts_per_token", 6, "num_experts_per_token: has 6, needs a whole number in 1..5"},
      {"/text_config/num_shared_experts", 1025, "num_shared_experts: has 1025, needs"},
      {"/text_config/moe_router_activation_func", "softmax",
       "moe_router_activation_func: has \"softmax\", needs \"sigmoid\""},
      {"/text_config/topk_method", "greedy", "topk_method: has \"greedy\", needs \"noaux_tc\""},
      {"/text_config/num_expert_group", 4, "num_expert_group: has 4, needs 1"},
      {"/text_config/moe_layer_freq", 2, "moe_layer_freq: has 2, needs 1"},
      {"/text_config/num_nextn_predict_layers", 1, "num_nextn_predict_layers: has 1, needs 0"},
      {"/text_config/attn_res_block_size", 0, "attn_res_block_size: has 0, needs a whole number in 1..5"},
      {"/text_config/linear_attn_config", none, "linear_attn_config: missing, needs an object"},
      {"/text_config/linear_attn_config", 5, "linear_attn_config: has 5, needs an object"},
      {"/text_config/linear_attn_config/head_dim", 64, "linear_attn_config: head_dim: has 64, needs 128"},
      {"/text_config/linear_attn_config/short_conv_kernel_size", 3, "short_conv_kernel_size: has 3, needs 4"},
      {"/text_config/linear_attn_config/gate_lower_bound", -6.0, "gate_lower_bound: has -6.0, needs a number in -5..0"},
      {"/text_config/linear_attn_config/gate_lower_bound", 0, "gate_lower_bound: has 0, needs a number in [-5, 0)"},
      {"/text_config/linear_attn_config/kda_layers", Json({1, 2, 3, 4}),
       "needs layer 2 once in kda_layers or full_attn_layers"},
      {"/text_config/linear_attn_config/kda_layers", Json({0, 3, 4}),
       "kda_layers: has [0,3,4], needs a whole number in 1..5"},
      {"/text_config/linear_attn_config/allow_neg_eigval", true,
       "linear_attn_config: allow_neg_eigval: is not known, needs to be absent"},
      {"/text_config/model_type", "llama",
       "text_config: model_type: has \"llama\", needs \"kimi_linear\" or \"kimi_k3\""},
      {"/model_type", "kimi_k25", "model_type: has \"kimi_k25\", needs \"kimi_k3\""},
      {"/text_config", 3, "text_config: has 3, needs an object"},
      {"/text_config/quantization_config", Json({{"quant_method", "gptq"}}),
       "quantization_config: quant_method: has \"gptq\", needs \"compressed-tensors\""},
      {"/quantization_config", Json({{"quant_method", "compressed-tensors"}, {"format", "pack-quantized"}}),
       "format: has \"pack-quantized\", needs \"mxfp4-pack-quantized\""},
      {"/quantization_config", Json({{"quant_method", "compressed-tensors"}}),
       "format: missing, needs \"mxfp4-pack-quantized\""},
      {"/quantization_config",
       Json::parse(
           R"({"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized", "config_groups": {"g": {"weights": {"num_bits": 8}}}})"),
       "config_groups.g.weights: num_bits: has 8, needs 4"},
      {"/quantization_config",
       Json::parse(
           R"({"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized", "config_groups": {"g": {"input_activations": {"num_bits": 4}}}})"),
       "input_activations: has {\"num_bits\":4}, needs null"},
  };
  for (const Case& c : cases) {
    ModelConfig config;
    const Status status = parse_config(changed(c.pointer, c.value), "config.json", &config);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument) << c.pointer << " = " << c.value;
    EXPECT_NE(status.message().find(c.text), std::string::npos) << "has: " << status.message() << "\nneeds: " << c.text;
    EXPECT_TRUE(status.message().starts_with("config.json: ")) << status.message();
    expect_one_line(status.message());
  }
  ModelConfig config;
  EXPECT_TRUE(parse_config(good_config().dump(), "config.json", &config).ok());
  for (const char* text : {"", "{", "[]", "null", "{\"a\": 1, \"a\": 2}"}) {
    EXPECT_EQ(parse_config(text, "config.json", &config).code(), StatusCode::invalid_argument) << text;
  }
}

TEST(Config, ReadsTheFamily) {
  for (const Variant& variant : synthetic_variants()) {
    ModelConfig c;
    const Status status = parse_config(SyntheticModel(variant, 1).config, "config.json", &c);
    ASSERT_TRUE(status.ok()) << variant.name << ": " << status.message();
    EXPECT_EQ(c.attn_res_block, variant.attn_res_block);
    EXPECT_EQ(c.kda.safe_gate, variant.safe_gate);
    EXPECT_EQ(c.kda.full_rank_gate, variant.full_rank_gate);
    EXPECT_EQ(c.mla.query_rank, variant.query_rank ? Variant::kQueryRank : 0);
    EXPECT_EQ(c.mla.output_gate, variant.mla_gate);
    EXPECT_EQ(c.ffn.latent, variant.latent && variant.experts > 0 ? Variant::kLatent : 0);
    EXPECT_EQ(c.ffn.activation, variant.situ ? Activation::situ : Activation::swiglu);
    EXPECT_EQ(c.mxfp4, variant.mxfp4);
    EXPECT_EQ(c.tied_embeddings, variant.tied);
    EXPECT_EQ(c.end_tokens, std::vector<int32_t>{257});
    for (int64_t i = 0; i < Variant::kLayers; ++i) {
      EXPECT_EQ(c.attention[static_cast<size_t>(i)] == AttentionKind::mla, variant.is_mla(i));
    }
  }
}

TEST(GenerationConfig, ValuesAndRefusals) {
  GenerationConfig config;
  ASSERT_TRUE(
      parse_generation_config(
          R"({"do_sample": true, "temperature": 0.5, "top_k": 7, "top_p": 0.9, "eos_token_id": [1, 2]})", "g", &config)
          .ok());
  EXPECT_EQ(config.sampling.temperature, 0.5F);
  EXPECT_EQ(config.sampling.top_k, 7);
  EXPECT_EQ(config.end_tokens, (std::vector<int32_t>{1, 2}));
  ASSERT_TRUE(parse_generation_config(R"({"temperature": 0.5})", "g", &config).ok());
  EXPECT_EQ(config.sampling.temperature, 0.0F);
  EXPECT_EQ(parse_generation_config(R"({"temperature": -1})", "g", &config).message(),
            "g: temperature: has -1, needs a number in 0..100");
  EXPECT_EQ(parse_generation_config(R"({"top_p": 0})", "g", &config).message(),
            "g: top_p: has 0, needs a number in (0, 1]");
  EXPECT_EQ(parse_generation_config(R"({"eos_token_id": "x"})", "g", &config).message(),
            "g: eos_token_id: has \"x\", needs a whole number in 0..16777216");
}

TEST(TokenizerConfig, OthersAreRefusedByName) {
  Tokenizer tokenizer;
  const std::pair<const char*, const char*> cases[] = {
      {R"({"tokenizer_class": "TikTokenTokenizer"})",
       "t: type: missing (tokenizer_class is \"TikTokenTokenizer\"), needs \"bytes\""},
      {R"({"type": "bpe"})", "t: type: has \"bpe\", needs \"bytes\""},
      {R"({"type": "bytes", "add_bos_token": true})", "t: bos_token_id: missing, needs a whole number in 0..319"},
      {R"({"type": "bytes", "bos_token_id": 320})", "t: bos_token_id: has 320, needs a whole number in 0..319"},
      {R"(["bytes"])", "t: has [\"bytes\"], needs an object"}};
  for (const auto& [text, want] : cases) {
    const Status status = parse_tokenizer(text, "t", 320, &tokenizer);
    EXPECT_NE(status.message().find(want), std::string::npos) << status.message();
  }
  EXPECT_EQ(parse_tokenizer(R"({"type": "bytes"})", "t", 100, &tokenizer).message(),
            "config.json: vocab_size: has 100, needs at least 256 for bytes");
}

/// The status of loading a synthetic model after `change` had its way with it and with the folder.
template <class Change>
Status load_changed(const Variant& variant, Change change) {
  SyntheticModel synthetic(variant, 5);
  const TemporaryFolder folder;
  change(synthetic);
  synthetic.write(folder);
  std::shared_ptr<const Model> model;
  return Model::load(folder.path(), {}, &model);
}

constexpr const char* kPrefix = "language_model.model.layers.";

TEST(Checkpoints, WrongTensorsAreNamed) {
  struct Case {
    std::function<void(FileTensors&)> change;
    std::string text;
  };
  const std::string q = std::string(kPrefix) + "0.self_attn.q_proj.weight";
  const std::string norm = std::string(kPrefix) + "0.input_layernorm.weight";
  const std::string a_log = std::string(kPrefix) + "0.self_attn.A_log";
  const Case cases[] = {
      {[&](FileTensors& f) { f.erase(q); }, "tensor " + q + ": missing, needs to be there"},
      {[&](FileTensors& f) { f[q].dtype = "F16"; }, "tensor " + q + ": dtype: has F16, needs BF16 or F32"},
      {[&](FileTensors& f) {
         f[q].shape = {64, 256};
       },
       "tensor " + q + ": shape: has [64, 256], needs [256, 64]"},
      {[&](FileTensors& f) {
         f[a_log] = {"F32", {1}, std::string(4, '\0')};
       },
       "tensor " + a_log + ": shape: has [1], needs at least 2 values"},
      {[&](FileTensors& f) {
         f[q + ".bias"] = {"F32", {1}, std::string(4, '\0')};
       },
       "tensor " + q + ".bias: is not part of this architecture"},
      {[&](FileTensors& f) {
         f["language_model.lm_head.bias"] = {"F32", {1}, std::string(4, '\0')};
       },
       "tensor language_model.lm_head.bias: is not part"},
      {[&](FileTensors& f) {
         f[norm].dtype = "F32";
         f[norm].bytes = std::string(256, '\x3f');
       },
       "tensor " + norm + ": element 0: has 0.7470588, needs a value that bf16 holds"},
      {[&](FileTensors& f) { f.erase("language_model.model.embed_tokens.weight"); },
       "tensor model.embed_tokens.weight: missing, needs to be there (or"},
  };
  for (const Case& c : cases) {
    const Status status =
        load_changed({.name = "kimi_k3"}, [&](SyntheticModel& synthetic) { c.change(synthetic.files); });
    EXPECT_EQ(status.code(), StatusCode::invalid_argument);
    EXPECT_NE(status.message().find(c.text), std::string::npos) << "has: " << status.message() << "\nneeds: " << c.text;
    expect_one_line(status.message());
  }
  // What is not the text model's is left alone.
  EXPECT_TRUE(load_changed({.name = "kimi_k3"}, [](SyntheticModel& s) {
                s.files["vision_tower.x"] = {"F16", {1}, "ab"};
              }).ok());
}

TEST(Checkpoints, WrongMxfp4IsNamed) {
  const std::string w1 = std::string(kPrefix) + "1.block_sparse_moe.experts.0.w1.weight";
  Variant variant{.name = "k3_mxfp4"};
  variant.mxfp4 = true;
  const auto load = [&](const std::function<void(SyntheticModel&)>& change) {
    return load_changed(variant, change).message();
  };
  EXPECT_EQ(load([](SyntheticModel&) {}), "");
  EXPECT_EQ(load([&](SyntheticModel& s) { s.files[w1 + "_scale"].bytes[3] = '\xff'; }),
            "tensor " + w1 + "_scale: row 3: has scale byte 255, needs at most 252");
  EXPECT_EQ(load([&](SyntheticModel& s) { s.files.erase(w1 + "_scale"); }),
            "tensor " + w1 + "_scale: missing, needs to be there");
  EXPECT_EQ(load([&](SyntheticModel& s) { s.files[w1 + "_packed"].dtype = "I8"; }),
            "tensor " + w1 + "_packed: dtype: has I8, needs U8");
  EXPECT_EQ(load([&](SyntheticModel& s) {
              s.files[w1 + "_packed"].shape = {16, 32};
            }),
            "tensor " + w1 + "_packed: shape: has [16, 32], needs [32, 16]");
  EXPECT_EQ(load([&](SyntheticModel& s) {
              Json config = Json::parse(s.config);
              config["text_config"].erase("quantization_config");
              s.config = config.dump();
            }),
            "tensor " + w1 + ": missing, needs to be there");
}

TEST(Checkpoints, WrongFoldersAreNamed) {
  std::shared_ptr<const Model> model;
  const auto load_folder = [&](const TemporaryFolder& folder) {
    const Status status = Model::load(folder.path(), {}, &model);
    EXPECT_FALSE(status.ok());
    expect_one_line(status.message());
    std::string message = status.message();
    if (const size_t at = message.find(folder.path()); at != std::string::npos)
      message.replace(at, folder.path().size(), "FOLDER");
    return message;
  };
  const SyntheticModel synthetic({.name = "kimi_k3"}, 5);
  const TemporaryFolder folder;
  EXPECT_EQ(load_folder(folder), "FOLDER/config.json: cannot be opened: No such file or directory");
  folder.write("config.json", synthetic.config);
  EXPECT_EQ(load_folder(folder), "FOLDER/tokenizer_config.json: cannot be opened: No such file or directory");
  folder.write("tokenizer_config.json", R"({"type": "bytes", "bos_token_id": 256})");
  EXPECT_EQ(load_folder(folder), "FOLDER: has no weights, needs model.safetensors or model.safetensors.index.json");
  std::filesystem::create_directory(folder.path() + "/model.safetensors");
  EXPECT_EQ(load_folder(folder), "FOLDER/model.safetensors: is no regular file, needs to be one");
  std::filesystem::remove(folder.path() + "/model.safetensors");
  folder.write("model.safetensors", safetensors_image(synthetic.files).substr(0, 200000));
  EXPECT_NE(load_folder(folder).find("needs a range within the"), std::string::npos);

  const std::pair<const char*, const char*> indexes[] = {
      {"{", "model.safetensors.index.json: has no valid JSON at byte 2, needs JSON"},
      {"{}", "model.safetensors.index.json: weight_map: missing, needs an object"},
      {R"({"weight_map": {"a": "../x.safetensors"}})",
       "model.safetensors.index.json: weight_map: a: has \"../x.safetensors\", needs the name of a file in the folder"},
      {R"({"weight_map": {"a": "/etc/passwd"}})",
       "model.safetensors.index.json: weight_map: a: has \"/etc/passwd\", needs the name of a file in the folder"},
      {R"({"weight_map": {"a": ".."}})",
       "model.safetensors.index.json: weight_map: a: has \"..\", needs the name of a file in the folder"},
      {R"({"weight_map": {"a": 3}})",
       "model.safetensors.index.json: weight_map: a: has 3, needs the name of a file in the folder"},
      {R"({"weight_map": {"a": "one"}})", "one: a: missing, needs to be there (model.safetensors.index.json says so)"},
      {R"({"weight_map": {"t": "gone"}})", "FOLDER/gone: cannot be opened: No such file or directory"},
      {R"({"weight_map": {"t": "one", "u": "two"}})",
       "model.safetensors.index.json: t: has \"one\", needs \"two\" (the shard that holds it)"},
      {R"({"weight_map": {"t": "one", "u": "one"}})",
       "one: u: missing, needs to be there (model.safetensors.index.json says so)"},
      {R"({"weight_map": {"u": "two"}})",
       "model.safetensors.index.json: t: has no entry, needs \"two\" (the shard that holds it)"},
  };
  const FileTensor tensor{"F32", {1}, "abcd"};
  folder.write("one", safetensors_image({{"t", tensor}}));
  folder.write("two", safetensors_image({{"t", tensor}, {"u", tensor}}));
  for (const auto& [index, text] : indexes) {
    folder.write("model.safetensors.index.json", index);
    EXPECT_EQ(load_folder(folder), text);
  }
}

// Opening a FIFO would wait for somebody to write to it.
TEST(Checkpoints, WhatIsNoRegularFileIsRefused) {
  const TemporaryFolder folder;
  const std::string fifo = folder.path() + "/model.safetensors";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  std::unique_ptr<InputFile> file;
  const Status status = InputFile::open(fifo, &file);
  EXPECT_EQ(status.code(), StatusCode::io_error);
  EXPECT_EQ(status.message(), fifo + ": is no regular file, needs to be one");
  EXPECT_EQ(InputFile::open("/dev/zero", &file).message(), "/dev/zero: is no regular file, needs to be one");
  EXPECT_EQ(InputFile::open(folder.path(), &file).message(), folder.path() + ": is no regular file, needs to be one");
}

/// What loading says where `at_first` happens to the files when the first tensor is about to be read.
Status load_while(const TemporaryFolder& folder, const std::function<bool()>& at_first,
                  std::shared_ptr<const Model>* model) {
  ModelOptions options;
  bool first = true;
  options.progress = [&](double) { return !std::exchange(first, false) || at_first(); };
  return Model::load(folder.path(), options, model);
}

// Files are read, so there is no signal to be had; what is there and what was there are both told.
TEST(Checkpoints, FilesThatChangeWhileTheyAreReadAreNamed) {
  const SyntheticModel synthetic({.name = "kimi_k3", .shards = 2}, 5);
  for (const char* name : {"part-0.safetensors", "part-1.safetensors"}) {
    const TemporaryFolder folder;
    synthetic.write(folder);
    const std::filesystem::path path = folder.path() + "/" + name;
    const auto size = std::filesystem::file_size(path);
    std::shared_ptr<const Model> model;
    const auto status_after = [&](const std::function<void()>& change) {
      return load_while(
          folder,
          [&] {
            change();
            return true;
          },
          &model);
    };
    const Status gone = status_after([&] { std::filesystem::resize_file(path, 8); });
    EXPECT_EQ(gone.code(), StatusCode::io_error);
    EXPECT_EQ(gone.message(),
              fmt::format("{}: has 8 bytes, needs {} (what it had when it was opened)", path.string(), size));
    synthetic.write(folder);
    const Status longer = status_after([&] { std::filesystem::resize_file(path, size + 1); });
    EXPECT_EQ(longer.message(), fmt::format("{}: has {} bytes, needs {} (what it had when it was opened)",
                                            path.string(), size + 1, size));
    synthetic.write(folder);
    const Status written = status_after([&] {
      std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::hours(1));
    });
    EXPECT_EQ(written.code(), StatusCode::io_error);
    EXPECT_EQ(written.message(), path.string() + ": was written while it was read, needs to stay as it is");
    EXPECT_EQ(model, nullptr);
    EXPECT_TRUE(status_after([] {}).ok());
  }
}

TEST(Checkpoints, AReadIsWholeOrAnError) {
  const TemporaryFolder folder;
  folder.write("file", "0123456789");
  const std::string path = folder.path() + "/file";
  std::unique_ptr<InputFile> file;
  ASSERT_TRUE(InputFile::open(path, &file).ok());
  std::byte bytes[4];
  EXPECT_TRUE(file->read(6, bytes).ok());
  EXPECT_EQ(bytes[3], std::byte{'9'});
  std::filesystem::resize_file(path, 8);
  const Status status = file->read(6, bytes);
  EXPECT_EQ(status.code(), StatusCode::io_error);
  EXPECT_EQ(status.message(), path + ": has 8 bytes, needs 10 (what it had when it was opened)");
}

TEST(Checkpoints, ALoadedModelNeedsNoFiles) {
  const SyntheticModel synthetic({.name = "kimi_k3"}, 5);
  const TemporaryFolder folder;
  synthetic.write(folder);
  const auto model = load(folder.path(), Precision::bf16);
  const std::vector<int32_t> tokens = {1, 2, 3};
  const std::vector<float> before = logits_of(*open_session(model, {.slots = 1, .context = 8}), tokens);
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    std::filesystem::resize_file(file.path(), 0);
    std::filesystem::remove(file.path());
  }
  const std::vector<float> after = logits_of(*open_session(model, {.slots = 1, .context = 8}), tokens);
  EXPECT_TRUE(before == after);
}

TEST(Checkpoints, LoadingCanBeCancelled) {
  const SyntheticModel synthetic({.name = "kimi_k3"}, 5);
  const TemporaryFolder folder;
  synthetic.write(folder);
  std::shared_ptr<const Model> model;
  const Status status = load_while(
      folder, [] { return false; }, &model);
  EXPECT_EQ(status.code(), StatusCode::exhausted);
  EXPECT_TRUE(status.message().starts_with("model: cancelled after ")) << status.message();
  EXPECT_EQ(model, nullptr);
}

// Who can write an index cannot name a file elsewhere; who can write a folder can put a link into it (SECURITY.md).
TEST(Checkpoints, NamesStayInTheFolderAndLinksAreFollowed) {
  const TemporaryFolder store;
  const TemporaryFolder folder;
  const SyntheticModel synthetic({.name = "kimi_k3"}, 5);
  synthetic.write(store);
  for (const char* name : {"config.json", "tokenizer_config.json", "model.safetensors"}) {
    std::filesystem::create_symlink(store.path() + "/" + name, folder.path() + "/" + name);
  }
  EXPECT_NE(load(folder.path(), Precision::bf16), nullptr);
  const std::string outside = store.path() + "/model.safetensors";
  const std::string climbing = "../" + std::filesystem::path(store.path()).filename().string() + "/model.safetensors";
  ASSERT_TRUE(std::filesystem::exists(folder.path() + "/" + climbing));
  const std::string names[] = {outside,         climbing, "./model.safetensors",          ".", "..", "",
                               "..\\model.bin", "a/b",    std::string("model\0.bin", 10), "/"};
  for (const std::string& name : names) {
    folder.write("model.safetensors.index.json", Json({{"weight_map", {{"t", name}}}}).dump());
    std::shared_ptr<const Model> model;
    const Status status = Model::load(folder.path(), {}, &model);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument) << name;
    EXPECT_TRUE(status.message().ends_with("needs the name of a file in the folder")) << status.message();
    expect_one_line(status.message());
  }
}

TEST(Checkpoints, EndTokensMustExist) {
  const Status status = load_changed({.name = "kimi_k3"}, [](SyntheticModel& s) {
    Json config = Json::parse(s.config);
    config["text_config"]["eos_token_id"] = 5000;
    s.config = config.dump();
  });
  EXPECT_EQ(status.message(), "config.json: eos_token_id: has 5000, needs less than vocab_size 268");
}

TEST(Checkpoints, InfoOfK3Mini) {
  const ModelInfo& info = shared_k3_mini(Precision::bf16)->info();
  EXPECT_EQ(info.architecture, "kimi_k3");
  EXPECT_EQ(info.parameters, 8215896);
  EXPECT_EQ(info.checkpoint_bytes, 16473440);
  EXPECT_EQ(info.layers.size(), 9U);
  EXPECT_EQ(info.layers[3].attention, AttentionKind::mla);
  EXPECT_EQ(info.layers[0].feed_forward, FeedForwardKind::dense);
  EXPECT_EQ(info.attn_res_blocks, 5);
  EXPECT_EQ(info.bos_token, 256);
  EXPECT_EQ(info.eos_tokens, std::vector<int32_t>{257});
}

}  // namespace
}  // namespace silt
