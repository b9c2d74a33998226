// config.json of the Kimi-K3 family as a checked value. Sizes are in 1..kMostSize and their products fit 64 bits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "silt/model.hpp"

namespace silt {

/// Larger sizes are refused: products of three of them still fit 64 bits.
constexpr int64_t kMostSize = int64_t{1} << 20;
constexpr int64_t kKdaWidth = 128;  ///< channels of a KDA head; what the operators take
constexpr int64_t kConvTaps = 4;

enum class Activation : int32_t { situ, swiglu };

struct KdaConfig {
  int64_t heads = 0;
  bool safe_gate = false;
  float lower_bound = -5.0F;
  bool full_rank_gate = false;  ///< g_proj; else g_a_proj and g_b_proj
  [[nodiscard]] int64_t channels() const { return heads * kKdaWidth; }
};

struct MlaConfig {
  int64_t heads = 0;
  int64_t query_rank = 0;  ///< 0: q_proj alone
  int64_t latent = 0;      ///< kv_lora_rank
  int64_t nope = 0;
  int64_t shared = 0;  ///< qk_rope_head_dim: the key part that all heads share, not rotated
  int64_t value = 0;
  bool output_gate = false;
  [[nodiscard]] int64_t query_width() const { return nope + shared; }
  [[nodiscard]] int64_t cache_width() const { return latent + shared; }
};

struct FeedForwardConfig {
  Activation activation = Activation::swiglu;
  float situ_beta = 1.0F;
  float situ_linear_beta = 1.0F;
  int64_t dense_layers = 0;  ///< the first ones
  int64_t dense_width = 0;
  int64_t experts = 0;  ///< 0: every layer is dense
  int64_t chosen = 0;
  int64_t expert_width = 0;
  int64_t shared_width = 0;  ///< of the shared experts together; 0: none
  int64_t latent = 0;        ///< routed_expert_hidden_size; 0: experts work on the hidden size
  bool latent_norm = false;
  bool renormalize = false;
  float routed_scale = 1.0F;
};

struct ModelConfig {
  std::string architecture;
  int64_t vocab = 0;
  int64_t hidden = 0;
  std::vector<AttentionKind> attention;  ///< one per layer
  float eps = 1e-5F;
  int64_t attn_res_block = 0;  ///< layers of a depth block; 0: ordinary residuals
  int64_t context = 0;
  bool tied_embeddings = false;
  bool mxfp4 = false;  ///< experts may be packed
  std::vector<int32_t> end_tokens;
  KdaConfig kda;
  MlaConfig mla;
  FeedForwardConfig ffn;

  [[nodiscard]] int64_t layers() const { return static_cast<int64_t>(attention.size()); }
  [[nodiscard]] int64_t depth_blocks() const {
    return attn_res_block == 0 ? 0 : (layers() + attn_res_block - 1) / attn_res_block;
  }
  [[nodiscard]] bool dense(int64_t layer) const { return ffn.experts == 0 || layer < ffn.dense_layers; }
};

/// `file` is the name for messages. Values that the decoder does not implement are refused by field name.
Status parse_config(std::string_view text, std::string_view file, ModelConfig* config);

/// generation_config.json: how to sample where the caller does not say, and more end tokens.
struct GenerationConfig {
  Sampling sampling;
  std::vector<int32_t> end_tokens;
};
Status parse_generation_config(std::string_view text, std::string_view file, GenerationConfig* config);

}  // namespace silt
