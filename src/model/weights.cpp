#include "model/weights.hpp"

#include <algorithm>

#include "core/no_memory.hpp"
#include "model/json.hpp"
#include "model/weight_reader.hpp"

namespace silt {
namespace {

class Loader {
 public:
  Loader(const Checkpoint& checkpoint, const ModelConfig& config, const LoadOptions& options)
      : config_(config),
        threads_(options.threads),
        type_(options.precision == Precision::bf16 ? DType::bf16 : DType::f32),
        reader_(checkpoint, type_, config.mxfp4, options.progress) {}

  Status load(ModelWeights* weights);
  [[nodiscard]] std::string current() const { return "tensor " + printable(reader_.current()); }

 private:
  Status load_depth(const std::string& name, DepthWeights* depth);
  Status load_layer(int64_t index, LayerWeights* layer);
  Status load_kda_tensors(const std::string& name, KdaTensors* tensors);
  Status load_kda(const std::string& name, KdaWeights* kda);
  Status load_mla(const std::string& name, MlaWeights* mla);
  Status load_mla_heads(const std::string& name, MlaWeights* mla);
  Status load_dense(const std::string& name, int64_t width, DenseWeights* dense);
  Status load_moe(const std::string& name, MoeWeights* moe);
  Status load_expert(const std::string& name, int64_t in, Matrix* gate_up, Matrix* down);
  Status load_ends(ModelWeights* weights);

  Status pack(const HostMatrix& rows, Matrix* matrix) {
    SILT_TRY(Matrix::pack(rows, threads_, &memory_, matrix));
    resident_ += matrix->bytes();
    return {};
  }
  Status read_and_pack(const std::string& name, int64_t rows, int64_t cols, Matrix* matrix) {
    HostMatrix host;
    SILT_TRY(reader_.matrix(name, rows, cols, &host));
    return pack(host, matrix);
  }
  Status pack_stack(std::initializer_list<const HostMatrix*> parts, Matrix* matrix) {
    std::vector<const HostMatrix*> present;
    for (const HostMatrix* part : parts) {
      if (part->rows > 0) present.push_back(part);
    }
    return pack(stack(present), matrix);
  }
  Status norm(const std::string& name, int64_t size, std::vector<float>* values) {
    return reader_.vector(name + ".weight", {{size}}, values);
  }

  const ModelConfig& config_;
  int32_t threads_;
  WeightMemory memory_;
  DType type_;
  WeightReader reader_;
  std::string prefix_;
  int64_t resident_ = 0;
};

Status Loader::load_depth(const std::string& name, DepthWeights* depth) {
  if (config_.attn_res_block == 0) return {};
  const int64_t d = config_.hidden;
  SILT_TRY(reader_.vector_bf16(name + "_norm.weight", {{d}}, &depth->norm));
  return reader_.vector_bf16(name + "_proj.weight", {{1, d}, {d}}, &depth->query);
}

Status Loader::load_kda_tensors(const std::string& name, KdaTensors* t) {
  const KdaConfig& c = config_.kda;
  const int64_t d = config_.hidden;
  const int64_t p = c.channels();
  t->heads = c.heads;
  SILT_TRY(reader_.matrix(name + "q_proj", p, d, &t->q));
  SILT_TRY(reader_.matrix(name + "k_proj", p, d, &t->k));
  SILT_TRY(reader_.matrix(name + "v_proj", p, d, &t->v));
  SILT_TRY(reader_.matrix(name + "f_a_proj", kKdaWidth, d, &t->gate_a));
  SILT_TRY(reader_.matrix(name + "f_b_proj", p, kKdaWidth, &t->gate_b));
  SILT_TRY(reader_.matrix(name + "b_proj", c.heads, d, &t->beta));
  if (c.full_rank_gate) {
    SILT_TRY(reader_.matrix(name + "g_proj", p, d, &t->output_gate));
  } else {
    SILT_TRY(reader_.matrix(name + "g_a_proj", kKdaWidth, d, &t->output_gate_a));
    SILT_TRY(reader_.matrix(name + "g_b_proj", p, kKdaWidth, &t->output_gate_b));
  }
  SILT_TRY(reader_.matrix(name + "o_proj", d, p, &t->o));
  SILT_TRY(reader_.vector(name + "q_conv1d.weight", {{p, 1, kConvTaps}, {p, kConvTaps}}, &t->conv_q));
  SILT_TRY(reader_.vector(name + "k_conv1d.weight", {{p, 1, kConvTaps}, {p, kConvTaps}}, &t->conv_k));
  SILT_TRY(reader_.vector(name + "v_conv1d.weight", {{p, 1, kConvTaps}, {p, kConvTaps}}, &t->conv_v));
  SILT_TRY(reader_.vector_prefix(name + "A_log", c.heads, &t->a_log));
  SILT_TRY(reader_.vector(name + "dt_bias", {{p}, {c.heads, kKdaWidth}}, &t->dt_bias));
  return norm(name + "o_norm", kKdaWidth, &t->norm);
}

Status Loader::load_kda(const std::string& name, KdaWeights* kda) {
  KdaTensors tensors;
  SILT_TRY(load_kda_tensors(name, &tensors));
  KdaShard shard;
  SILT_TRY(shard_kda(tensors, 0, 1, &shard));
  const KdaTensors& w = shard.weights;
  kda->columns = {w.heads * kKdaWidth, w.heads, config_.kda.full_rank_gate};
  SILT_TRY(pack_stack({&w.q, &w.k, &w.v, &w.output_gate, &w.beta, &w.gate_a, &w.output_gate_a}, &kda->projection));
  SILT_TRY(pack(w.gate_b, &kda->gate_b));
  if (w.output_gate_b.rows > 0) SILT_TRY(pack(w.output_gate_b, &kda->output_gate_b));
  SILT_TRY(pack(w.o, &kda->o));
  kda->conv_weight = std::move(shard.conv_weight);
  kda->a_log = w.a_log;
  kda->dt_bias = w.dt_bias;
  kda->norm = w.norm;
  return {};
}

Status Loader::load_mla_heads(const std::string& name, MlaWeights* mla) {
  const MlaConfig& c = config_.mla;
  HostMatrix kv;
  SILT_TRY(reader_.matrix(name + "kv_b_proj", c.heads * (c.nope + c.value), c.latent, &kv));
  mla->key_up.resize(static_cast<size_t>(c.heads));
  mla->value_up.resize(static_cast<size_t>(c.heads));
  for (int64_t h = 0; h < c.heads; ++h) {
    const int64_t first = h * (c.nope + c.value);
    SILT_TRY(pack(transposed(row_slice(kv, first, c.nope)), &mla->key_up[static_cast<size_t>(h)]));
    SILT_TRY(pack(row_slice(kv, first + c.nope, c.value), &mla->value_up[static_cast<size_t>(h)]));
  }
  return {};
}

Status Loader::load_mla(const std::string& name, MlaWeights* mla) {
  const MlaConfig& c = config_.mla;
  const int64_t d = config_.hidden;
  const int64_t query_rows = c.heads * c.query_width();
  HostMatrix query;
  HostMatrix kv;
  HostMatrix gate;
  if (c.query_rank > 0) {
    SILT_TRY(reader_.matrix(name + "q_a_proj", c.query_rank, d, &query));
    SILT_TRY(norm(name + "q_a_layernorm", c.query_rank, &mla->query_norm));
    SILT_TRY(read_and_pack(name + "q_b_proj", query_rows, c.query_rank, &mla->query_b));
  } else {
    SILT_TRY(reader_.matrix(name + "q_proj", query_rows, d, &query));
  }
  SILT_TRY(reader_.matrix(name + "kv_a_proj_with_mqa", c.cache_width(), d, &kv));
  SILT_TRY(norm(name + "kv_a_layernorm", c.latent, &mla->latent_norm));
  if (c.output_gate) SILT_TRY(reader_.matrix(name + "g_proj", c.heads * c.value, d, &gate));
  mla->query_columns = query.rows;
  SILT_TRY(pack_stack({&query, &kv, &gate}, &mla->projection));
  SILT_TRY(load_mla_heads(name, mla));
  return read_and_pack(name + "o_proj", d, c.heads * c.value, &mla->o);
}

Status Loader::load_dense(const std::string& name, int64_t width, DenseWeights* dense) {
  HostMatrix gate;
  HostMatrix up;
  SILT_TRY(reader_.matrix(name + "gate_proj", width, config_.hidden, &gate));
  SILT_TRY(reader_.matrix(name + "up_proj", width, config_.hidden, &up));
  SILT_TRY(pack_stack({&gate, &up}, &dense->gate_up));
  dense->width = width;
  return read_and_pack(name + "down_proj", config_.hidden, width, &dense->down);
}

Status Loader::load_expert(const std::string& name, int64_t in, Matrix* gate_up, Matrix* down) {
  HostMatrix gate;
  HostMatrix up;
  SILT_TRY(reader_.matrix(name + "w1", config_.ffn.expert_width, in, &gate));
  SILT_TRY(reader_.matrix(name + "w3", config_.ffn.expert_width, in, &up));
  SILT_TRY(pack_stack({&gate, &up}, gate_up));
  return read_and_pack(name + "w2", in, config_.ffn.expert_width, down);
}

Status Loader::load_moe(const std::string& name, MoeWeights* moe) {
  const FeedForwardConfig& c = config_.ffn;
  const int64_t d = config_.hidden;
  HostMatrix router;
  SILT_TRY(reader_.matrix_as_stored(name + "gate", c.experts, d, &router));
  SILT_TRY(pack(router, &moe->router));
  SILT_TRY(reader_.vector(name + "gate.e_score_correction_bias", {{c.experts}}, &moe->correction));
  if (c.latent > 0) {
    SILT_TRY(read_and_pack(name + "routed_expert_down_proj", c.latent, d, &moe->latent_down));
    SILT_TRY(read_and_pack(name + "routed_expert_up_proj", d, c.latent, &moe->latent_up));
    if (c.latent_norm) SILT_TRY(norm(name + "routed_expert_norm", c.latent, &moe->latent_norm));
  }
  const int64_t in = c.latent > 0 ? c.latent : d;
  moe->gate_up.resize(static_cast<size_t>(c.experts));
  moe->down.resize(static_cast<size_t>(c.experts));
  for (size_t e = 0; e < moe->gate_up.size(); ++e) {
    SILT_TRY(load_expert(fmt::format("{}experts.{}.", name, e), in, &moe->gate_up[e], &moe->down[e]));
  }
  return c.shared_width == 0 ? Status() : load_dense(name + "shared_experts.", c.shared_width, &moe->shared);
}

Status Loader::load_layer(int64_t index, LayerWeights* layer) {
  const std::string name = fmt::format("{}model.layers.{}.", prefix_, index);
  SILT_TRY(load_depth(name + "self_attention_res", &layer->before_attention));
  SILT_TRY(load_depth(name + "mlp_res", &layer->before_feed_forward));
  SILT_TRY(reader_.vector_bf16(name + "input_layernorm.weight", {{config_.hidden}}, &layer->input_norm));
  SILT_TRY(
      reader_.vector_bf16(name + "post_attention_layernorm.weight", {{config_.hidden}}, &layer->post_attention_norm));
  if (config_.attention[static_cast<size_t>(index)] == AttentionKind::kda) {
    SILT_TRY(load_kda(name + "self_attn.", &layer->attention.emplace<KdaWeights>()));
  } else {
    SILT_TRY(load_mla(name + "self_attn.", &layer->attention.emplace<MlaWeights>()));
  }
  if (config_.dense(index)) {
    return load_dense(name + "mlp.", config_.ffn.dense_width, &layer->feed_forward.emplace<DenseWeights>());
  }
  return load_moe(name + "block_sparse_moe.", &layer->feed_forward.emplace<MoeWeights>());
}

Status Loader::load_ends(ModelWeights* weights) {
  const int64_t d = config_.hidden;
  const std::string embedding = prefix_ + "model.embed_tokens";
  HostMatrix rows;
  SILT_TRY(reader_.matrix(embedding, config_.vocab, d, &rows));
  if (config_.tied_embeddings) {
    SILT_TRY(pack(rows, &weights->head));
  } else {
    SILT_TRY(read_and_pack(prefix_ + "lm_head", config_.vocab, d, &weights->head));
  }
  SILT_TRY(norm(prefix_ + "model.norm", d, &weights->final_norm));
  SILT_TRY(load_depth(prefix_ + "model.output_attn_res", &weights->output));
  weights->embedding = std::move(rows);
  resident_ += static_cast<int64_t>(weights->embedding.data.bytes());
  return {};
}

Status Loader::load(ModelWeights* weights) {
  SILT_TRY(reader_.find_prefix(&prefix_));
  SILT_TRY(load_ends(weights));
  weights->layers.resize(static_cast<size_t>(config_.layers()));
  for (size_t i = 0; i < weights->layers.size(); ++i) {
    SILT_TRY(load_layer(static_cast<int64_t>(i), &weights->layers[i]));
  }
  SILT_TRY(reader_.all_used(prefix_));
  weights->values = reader_.values_read();
  weights->checkpoint_bytes = reader_.bytes_read();
  weights->resident_bytes = resident_;
  weights->memory = std::move(memory_);
  return {};
}

}  // namespace

Status load_weights(const Checkpoint& checkpoint, const ModelConfig& config, const LoadOptions& options,
                    ModelWeights* weights) {
  ModelWeights made;
  Loader loader(checkpoint, config, options);
  SILT_TRY(with_memory([&] { return loader.current(); }, [&] { return loader.load(&made); }));
  SILT_TRY(checkpoint.unchanged());
  if (options.progress && !options.progress(1.0)) return failed(StatusCode::exhausted, "model: cancelled");
  *weights = std::move(made);
  return {};
}

}  // namespace silt
