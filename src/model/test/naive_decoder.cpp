#include "model/test/naive_decoder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace silt {
namespace {

using Row = std::vector<double>;
using Table = std::vector<Row>;  // tokens, channels
using V = Variant;
constexpr double kEps = 1e-5;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

class Naive {
 public:
  Naive(const SyntheticModel& model, double noise, uint64_t seed)
      : model_(model), variant_(model.variant), noise_(noise), random_(seed) {}

  Table logits(std::span<const int32_t> tokens) {
    Table prefix;
    const Row& table = weight("model.embed_tokens.weight");
    for (const int32_t token : tokens) {
      const auto first = table.begin() + token * V::kHidden;
      prefix.emplace_back(first, first + V::kHidden);
    }
    Table delta;
    std::vector<Table> bank;
    for (int64_t i = 0; i < V::kLayers; ++i) layer(i, &prefix, &delta, &bank);
    add(&prefix, delta);
    Table hidden = variant_.attn_res_block > 0 ? depth(prefix, bank, "model.output_attn_res") : prefix;
    Table out;
    for (const Row& row : hidden) {
      out.push_back(linear(norm(row, "model.norm"), variant_.tied ? "model.embed_tokens" : "lm_head"));
    }
    return out;
  }

 private:
  const Row& weight(const std::string& name) const { return model_.values.at(name); }

  static void add(Table* to, const Table& from) {
    for (size_t t = 0; t < to->size() && !from.empty(); ++t) {
      for (size_t c = 0; c < (*to)[t].size(); ++c) (*to)[t][c] += from[t][c];
    }
  }

  void shake(Row* row) const {
    if (noise_ == 0) return;
    double squares = 0;
    for (const double v : *row) squares += v * v;
    const double size = std::sqrt(squares / static_cast<double>(row->size()));
    for (double& v : *row) v += noise_ * size * static_cast<double>(random_.uniform(-1.0F, 1.0F));
  }

  Row linear(const Row& x, const std::string& name) const {
    const Row& w = weight(name + ".weight");
    Row y(w.size() / x.size());
    for (size_t n = 0; n < y.size(); ++n) {
      for (size_t k = 0; k < x.size(); ++k) y[n] += w[n * x.size() + k] * x[k];
    }
    shake(&y);
    return y;
  }

  Row norm(const Row& x, const std::string& name) const {
    const Row& w = weight(name + ".weight");
    double squares = 0;
    for (const double v : x) squares += v * v;
    const double r = 1 / std::sqrt(squares / static_cast<double>(x.size()) + kEps);
    Row y(x.size());
    for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * r * w[i];
    shake(&y);
    return y;
  }

  Table depth(const Table& prefix, const std::vector<Table>& bank, const std::string& name) const {
    const Row& query = weight(name + "_proj.weight");
    Table out;
    for (size_t t = 0; t < prefix.size(); ++t) {
      std::vector<Row> sources;
      for (const Table& block : bank) sources.push_back(block[t]);
      sources.push_back(prefix[t]);
      Row scores;
      for (const Row& source : sources) {
        const Row key = norm(source, name + "_norm");
        double dot = 0;
        for (size_t c = 0; c < key.size(); ++c) dot += key[c] * query[c];
        scores.push_back(dot);
      }
      const double largest = *std::max_element(scores.begin(), scores.end());
      double sum = 0;
      for (double& s : scores) sum += s = std::exp(s - largest);
      Row mix(prefix[t].size());
      for (size_t s = 0; s < sources.size(); ++s) {
        for (size_t c = 0; c < mix.size(); ++c) mix[c] += scores[s] / sum * sources[s][c];
      }
      out.push_back(mix);
    }
    return out;
  }

  void layer(int64_t index, Table* prefix, Table* delta, std::vector<Table>* bank) {
    const std::string name = fmt::format("model.layers.{}.", index);
    const bool residuals = variant_.attn_res_block > 0;
    const bool boundary = residuals && index % variant_.attn_res_block == 0;
    add(prefix, *delta);
    Table x = residuals ? depth(*prefix, *bank, name + "self_attention_res") : *prefix;
    for (Row& row : x) row = norm(row, name + "input_layernorm");
    if (boundary) bank->push_back(*prefix);
    const Table a = variant_.is_mla(index) ? mla(x, name + "self_attn.") : kda(x, name + "self_attn.");
    if (boundary) {
      *prefix = a;
    } else {
      add(prefix, a);
    }
    Table y = residuals ? depth(*prefix, *bank, name + "mlp_res") : *prefix;
    for (Row& row : y) row = norm(row, name + "post_attention_layernorm");
    const bool dense = variant_.experts == 0 || index == 0;
    delta->clear();
    for (const Row& row : y) delta->push_back(dense ? mlp(row, name + "mlp.") : moe(row, name + "block_sparse_moe."));
  }

  Row activation(const Row& gate, const Row& up) const {
    Row y(gate.size());
    for (size_t i = 0; i < y.size(); ++i) {
      if (variant_.situ) {
        y[i] = 4 * std::tanh(gate[i] / 4) * sigmoid(gate[i]) * 25 * std::tanh(up[i] / 25);
      } else {
        y[i] = gate[i] * sigmoid(gate[i]) * up[i];
      }
    }
    return y;
  }

  Row mlp(const Row& x, const std::string& name) const {
    return linear(activation(linear(x, name + "gate_proj"), linear(x, name + "up_proj")), name + "down_proj");
  }

  Row moe(const Row& x, const std::string& name) const {
    const Row logits = linear(x, name + "gate");
    std::vector<std::pair<double, size_t>> order;
    for (size_t e = 0; e < logits.size(); ++e) {
      order.emplace_back(-(sigmoid(logits[e]) + weight(name + "gate.e_score_correction_bias")[e]), e);
    }
    std::sort(order.begin(), order.end());
    double sum = 0;
    for (size_t i = 0; i < V::kChosen; ++i) sum += sigmoid(logits[order[i].second]);
    const Row z = variant_.latent ? linear(x, name + "routed_expert_down_proj") : x;
    Row acc(z.size());
    for (size_t i = 0; i < V::kChosen; ++i) {
      const std::string expert = fmt::format("{}experts.{}.", name, order[i].second);
      double w = sigmoid(logits[order[i].second]) * variant_.routed_scale;
      if (variant_.renormalize) w /= sum + 1e-20;
      const Row part = linear(activation(linear(z, expert + "w1"), linear(z, expert + "w3")), expert + "w2");
      for (size_t c = 0; c < acc.size(); ++c) acc[c] += w * part[c];
    }
    if (variant_.latent) {
      if (variant_.latent_norm) acc = norm(acc, name + "routed_expert_norm");
      acc = linear(acc, name + "routed_expert_up_proj");
    }
    if (variant_.shared_experts > 0) {
      const Row shared = mlp(x, name + "shared_experts.");
      for (size_t c = 0; c < acc.size(); ++c) acc[c] += shared[c];
    }
    return acc;
  }

  /// Convolution and SiLU of one of q, k, v at token t.
  Row convolved(const Table& raw, size_t t, const std::string& name) const {
    const Row& taps = weight(name + "_conv1d.weight");
    Row y(raw[t].size());
    for (size_t c = 0; c < y.size(); ++c) {
      for (size_t j = 0; j < 4; ++j) {
        if (t + j >= 3) y[c] += taps[c * 4 + j] * raw[t + j - 3][c];
      }
      y[c] *= sigmoid(y[c]);
    }
    return y;
  }

  Table kda(const Table& x, const std::string& name) const {
    const size_t heads = V::kKdaHeads;
    std::vector<Table> state(heads, Table(128, Row(128)));  // [head][value][key]
    Table raw[3];
    const char* parts[] = {"q", "k", "v"};
    for (size_t i = 0; i < 3; ++i) {
      for (const Row& row : x) raw[i].push_back(linear(row, name + parts[i] + "_proj"));
    }
    Table out;
    for (size_t t = 0; t < x.size(); ++t) {
      Row qkv[3];
      for (size_t i = 0; i < 3; ++i) qkv[i] = convolved(raw[i], t, name + parts[i]);
      const Row decay = linear(linear(x[t], name + "f_a_proj"), name + "f_b_proj");
      const Row beta = linear(x[t], name + "b_proj");
      const Row gate = variant_.full_rank_gate ? linear(x[t], name + "g_proj")
                                               : linear(linear(x[t], name + "g_a_proj"), name + "g_b_proj");
      Row y;
      for (size_t h = 0; h < heads; ++h) {
        const Row o = step(&state[h], h, qkv, decay, sigmoid(beta[h]), name);
        const Row normed = norm(o, name + "o_norm");
        for (size_t i = 0; i < 128; ++i) y.push_back(normed[i] * sigmoid(gate[h * 128 + i]));
      }
      out.push_back(linear(y, name + "o_proj"));
    }
    return out;
  }

  Row step(Table* state, size_t h, const Row* qkv, const Row& decay_gate, double beta, const std::string& name) const {
    const auto head = [&](const Row& all, double scale, bool normalise) {
      Row part(all.begin() + static_cast<std::ptrdiff_t>(h * 128),
               all.begin() + static_cast<std::ptrdiff_t>(h * 128 + 128));
      double squares = 0;
      for (const double v : part) squares += v * v;
      for (double& v : part) v *= normalise ? scale / std::sqrt(squares + 1e-6) : 1.0;
      return part;
    };
    const Row q = head(qkv[0], 1 / std::sqrt(128.0), true);
    const Row k = head(qkv[1], 1.0, true);
    const Row v = head(qkv[2], 1.0, false);
    const double a = std::exp(weight(name + "A_log")[h]);
    const Row& dt_bias = weight(name + "dt_bias");
    Row decay(128);
    for (size_t i = 0; i < 128; ++i) {
      const double g = decay_gate[h * 128 + i] + dt_bias[h * 128 + i];
      decay[i] = std::exp(variant_.safe_gate ? -5 * sigmoid(a * g) : -a * std::log1p(std::exp(g)));
    }
    Row o(128);
    for (size_t i = 0; i < 128; ++i) {
      Row& s = (*state)[i];
      double u = 0;
      for (size_t j = 0; j < 128; ++j) u += (s[j] *= decay[j]) * k[j];
      const double e = (v[i] - u) * beta;
      for (size_t j = 0; j < 128; ++j) o[i] += (s[j] += e * k[j]) * q[j];
    }
    return o;
  }

  Table mla(const Table& x, const std::string& name) const {
    constexpr size_t kQuery = V::kNope + V::kShared;
    constexpr size_t kKeyValue = V::kNope + V::kValue;
    Table keys_values;
    Table shared;
    for (const Row& row : x) {
      const Row kv = linear(row, name + "kv_a_proj_with_mqa");
      const Row latent(kv.begin(), kv.begin() + V::kKvRank);
      shared.emplace_back(kv.begin() + V::kKvRank, kv.end());
      keys_values.push_back(linear(norm(latent, name + "kv_a_layernorm"), name + "kv_b_proj"));
    }
    Table out;
    for (size_t t = 0; t < x.size(); ++t) {
      const Row q = variant_.query_rank
                        ? linear(norm(linear(x[t], name + "q_a_proj"), name + "q_a_layernorm"), name + "q_b_proj")
                        : linear(x[t], name + "q_proj");
      Row y(V::kMlaHeads * V::kValue);
      for (size_t h = 0; h < V::kMlaHeads; ++h) {
        Row scores;
        for (size_t l = 0; l <= t; ++l) {
          double dot = 0;
          for (size_t c = 0; c < V::kNope; ++c) dot += q[h * kQuery + c] * keys_values[l][h * kKeyValue + c];
          for (size_t c = 0; c < V::kShared; ++c) dot += q[h * kQuery + V::kNope + c] * shared[l][c];
          scores.push_back(dot / std::sqrt(static_cast<double>(kQuery)));
        }
        const double largest = *std::max_element(scores.begin(), scores.end());
        double sum = 0;
        for (double& s : scores) sum += s = std::exp(s - largest);
        for (size_t l = 0; l <= t; ++l) {
          for (size_t c = 0; c < V::kValue; ++c) {
            y[h * V::kValue + c] += scores[l] / sum * keys_values[l][h * kKeyValue + V::kNope + c];
          }
        }
      }
      if (variant_.mla_gate) {
        const Row gate = linear(x[t], name + "g_proj");
        for (size_t i = 0; i < y.size(); ++i) y[i] *= sigmoid(gate[i]);
      }
      out.push_back(linear(y, name + "o_proj"));
    }
    return out;
  }

  const SyntheticModel& model_;
  const Variant& variant_;
  double noise_;
  mutable Random random_;
};

}  // namespace

std::vector<double> naive_logits(const SyntheticModel& model, std::span<const int32_t> tokens, double noise,
                                 uint64_t seed) {
  std::vector<double> flat;
  for (const Row& row : Naive(model, noise, seed).logits(tokens)) flat.insert(flat.end(), row.begin(), row.end());
  return flat;
}

}  // namespace silt
