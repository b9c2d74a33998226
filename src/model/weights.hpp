// The weights of a model, packed for the products and mirrored for the operators. Immutable once loaded.
#pragma once

#include <functional>
#include <memory>
#include <variant>
#include <vector>

#include "model/config.hpp"
#include "model/kda_weights.hpp"
#include "model/products.hpp"
#include "model/safetensors.hpp"

namespace silt {

/// A depth attention: what goes into its logits. Empty where the model has none.
struct DepthWeights {
  std::vector<bf16> norm;
  std::vector<bf16> query;
};

/// Columns of the fused projection of a KDA layer: [q | k | v | output gate | beta | gate_a | output_gate_a], the
/// output gate only where it has full rank, its low-rank half only where it has not.
struct KdaColumns {
  int64_t channels = 0;  ///< P
  int64_t heads = 0;
  bool full_rank_gate = true;
  [[nodiscard]] int64_t output_gate() const { return 3 * channels; }
  [[nodiscard]] int64_t beta() const { return (full_rank_gate ? 4 : 3) * channels; }
  [[nodiscard]] int64_t gate_a() const { return beta() + heads; }
  [[nodiscard]] int64_t output_gate_a() const { return gate_a() + kKdaWidth; }
  [[nodiscard]] int64_t all() const { return output_gate_a() + (full_rank_gate ? 0 : kKdaWidth); }
};

struct KdaWeights {
  KdaColumns columns;
  Matrix projection;
  Matrix gate_b;         ///< [P, 128]
  Matrix output_gate_b;  ///< [P, 128], or empty
  Matrix o;
  std::vector<float> conv_weight;  ///< [3, 4, P]
  std::vector<float> a_log;
  std::vector<float> dt_bias;
  std::vector<float> norm;
};

/// Columns of the fused projection of an MLA layer: [query or query_a | latent | shared key | gate].
struct MlaWeights {
  Matrix projection;
  int64_t query_columns = 0;
  std::vector<float> query_norm;  ///< empty without q_lora
  Matrix query_b;
  std::vector<float> latent_norm;
  std::vector<Matrix> key_up;    ///< per head [latent, nope]: takes a query into the latent space
  std::vector<Matrix> value_up;  ///< per head [value, latent]
  Matrix o;
};

struct DenseWeights {
  Matrix gate_up;  ///< [2 * width, D]
  Matrix down;
  int64_t width = 0;
};

struct MoeWeights {
  Matrix router;  ///< [experts, D]; fp32 where stored so
  std::vector<float> correction;
  Matrix latent_down;  ///< empty without a latent space
  Matrix latent_up;
  std::vector<float> latent_norm;  ///< empty without
  std::vector<Matrix> gate_up;     ///< per expert [2 * width, L]: w1 above w3
  std::vector<Matrix> down;        ///< per expert [L, width]
  DenseWeights shared;             ///< width 0 without shared experts
};

struct LayerWeights {
  DepthWeights before_attention;
  DepthWeights before_feed_forward;
  std::vector<bf16> input_norm;
  std::vector<bf16> post_attention_norm;
  std::variant<KdaWeights, MlaWeights> attention;
  std::variant<DenseWeights, MoeWeights> feed_forward;
};

struct ModelWeights {
  WeightMemory memory;   ///< of every Matrix
  HostMatrix embedding;  ///< [vocab, D] in the activation type
  std::vector<LayerWeights> layers;
  DepthWeights output;
  std::vector<float> final_norm;
  Matrix head;
  int64_t values = 0;            ///< of the checkpoint that are used
  int64_t checkpoint_bytes = 0;  ///< of these tensors
  int64_t resident_bytes = 0;
};

struct LoadOptions {
  Precision precision = Precision::bf16;
  int32_t threads = 0;
  std::function<bool(double)> progress;  ///< false cancels
};

Status load_weights(const Checkpoint& checkpoint, const ModelConfig& config, const LoadOptions& options,
                    ModelWeights* weights);

}  // namespace silt
