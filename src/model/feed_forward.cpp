// Dense and mixture-of-experts feed-forward. Experts work in a latent space where the model has one.
//
// An expert's rows go through its two products together, those of all experts in one region, and are written back by
// assignment; each row then sums its own experts in the order of its choice. So a row's result does not depend on which
// rows went with it.
#include <algorithm>
#include <functional>
#include <limits>

#include "core/status.hpp"
#include "core/workers.hpp"
#include "model/cpu/cpu_parts.hpp"
#include "model/decoder.hpp"
#include "model/glue.hpp"

namespace silt {
namespace {

/// The gated MLP up to its last product's input: hidden -> work.narrow.
Status gate_up(const LayerContext& context, const DenseWeights& weights) {
  Workspace& work = context.work;
  const TensorView wide = work.wide.view(context.rows(), 2 * weights.width);
  SILT_TRY(multiply({&weights.gate_up, work.hidden.view(context.rows()), wide}, context.threads()));
  gated_activation(wide, context.config.ffn, work.narrow.view(context.rows(), weights.width), context.threads());
  return {};
}

/// The `chosen` best of score + correction, best first; the lower index wins a tie. Weights are the scores alone.
/// `score` holds the logits and becomes the scores.
void choose_experts(float* score, std::span<const float> correction, const FeedForwardConfig& config, int32_t* chosen,
                    float* weights) {
  const auto experts = static_cast<size_t>(config.experts);
  cpu_parts().rows.sigmoid(score, score, config.experts);
  float sum = 0;
  for (int64_t i = 0; i < config.chosen; ++i) {
    size_t best = experts;
    for (size_t e = 0; e < experts; ++e) {
      const bool taken = std::find(chosen, chosen + i, static_cast<int32_t>(e)) != chosen + i;
      if (!taken && (best == experts || score[e] + correction[e] > score[best] + correction[best])) best = e;
    }
    chosen[i] = static_cast<int32_t>(best);
    weights[i] = score[best];
    sum += score[best];
  }
  const float scale = config.routed_scale / (config.renormalize ? sum + 1e-20F : 1.0F);
  for (int64_t i = 0; i < config.chosen; ++i) weights[i] *= scale;
}

void route(const LayerContext& context, const MoeWeights& weights) {
  const FeedForwardConfig& config = context.config.ffn;
  Workspace& work = context.work;
  const int64_t rows = context.rows();
  auto* scores = work.scores.data.as<float>();
  parallel_ranges(rows, threads_for(rows * config.experts * (2 + config.chosen), context.threads()),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t r = begin; r < end; ++r) {
                      choose_experts(scores + r * config.experts, weights.correction, config,
                                     work.chosen.data() + r * config.chosen, work.weights.data() + r * config.chosen);
                    }
                  });
  // Counting sort of the assignments by expert, rows ascending within one.
  const auto assignments = static_cast<size_t>(rows * config.chosen);
  std::fill(work.expert_begin.begin(), work.expert_begin.end(), 0);
  for (size_t i = 0; i < assignments; ++i) ++work.expert_begin[static_cast<size_t>(work.chosen[i]) + 1];
  for (size_t e = 1; e < work.expert_begin.size(); ++e) work.expert_begin[e] += work.expert_begin[e - 1];
  std::vector<int32_t>& next = work.expert_next;
  std::copy(work.expert_begin.begin(), work.expert_begin.end() - 1, next.begin());
  for (size_t i = 0; i < assignments; ++i) {
    const int32_t place = next[static_cast<size_t>(work.chosen[i])]++;
    work.sorted_from[i] = place;
    work.sorted_row[static_cast<size_t>(place)] = static_cast<int32_t>(i / static_cast<size_t>(config.chosen));
  }
}

/// Rows [first, first + count) of dense rows.
TensorView rows_of(TensorView rows, int64_t first, int64_t count) {
  rows.data = static_cast<std::byte*>(rows.data) + static_cast<size_t>(first * rows.stride[0]) * size_of(rows.dtype);
  rows.shape[0] = count;
  return rows;
}

/// The first product of every expert that has rows: it reads them where they lie.
void plan_gate_up(const LayerContext& context, const MoeWeights& weights, const TensorView& in) {
  Workspace& work = context.work;
  const TensorView wide = work.expert_wide.view(context.rows() * context.config.ffn.chosen);
  for (size_t e = 0; e < weights.gate_up.size(); ++e) {
    const int64_t first = work.expert_begin[e];
    const int64_t count = work.expert_begin[e + 1] - first;
    if (count > 0) {
      work.products.push_back({&weights.gate_up[e], in, rows_of(wide, first, count), work.sorted_row.data() + first});
    }
  }
}

void plan_down(const LayerContext& context, const MoeWeights& weights) {
  Workspace& work = context.work;
  const int64_t assignments = context.rows() * context.config.ffn.chosen;
  const TensorView narrow = work.expert_narrow.view(assignments);
  const TensorView out = work.expert_out.view(assignments);
  for (size_t e = 0; e < weights.down.size(); ++e) {
    const int64_t first = work.expert_begin[e];
    const int64_t count = work.expert_begin[e + 1] - first;
    if (count > 0) {
      work.products.push_back({&weights.down[e], rows_of(narrow, first, count), rows_of(out, first, count)});
    }
  }
}

/// Per row: the weighted sum of its experts' outputs, in the order of its choice.
void combine(const LayerContext& context, int64_t width) {
  Workspace& work = context.work;
  const int64_t chosen = context.config.ffn.chosen;
  const auto* parts = work.expert_out.data.as<float>();
  auto* sums = work.expert_sum.data.as<float>();
  const int64_t rows = context.rows();
  const auto add_scaled = cpu_parts().rows.add_scaled;
  parallel_ranges(rows, threads_for(rows * width * chosen, context.threads()), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      float* sum = sums + r * width;
      std::fill_n(sum, width, 0.0F);
      for (int64_t j = 0; j < chosen; ++j) {
        const auto assignment = static_cast<size_t>(r * chosen + j);
        add_scaled(parts + work.sorted_from[assignment] * width, work.weights[assignment], sum, width);
      }
    }
  });
}

/// Per row: by how much the last chosen expert beat the first one left out. Where that is within the rounding of a
/// score, the choice is the toss of a coin, and the token may differ from another implementation's by a whole expert.
std::vector<float> choice_margins(const LayerContext& context, const MoeWeights& weights) {
  const FeedForwardConfig& config = context.config.ffn;
  const auto* scores = context.work.scores.data.as<float>();
  std::vector<float> margins(static_cast<size_t>(context.rows()), std::numeric_limits<float>::infinity());
  if (config.chosen == config.experts) return margins;
  std::vector<float> selection(static_cast<size_t>(config.experts));
  for (size_t r = 0; r < margins.size(); ++r) {
    for (size_t e = 0; e < selection.size(); ++e) {
      selection[e] = scores[r * selection.size() + e] + weights.correction[e];
    }
    std::sort(selection.begin(), selection.end(), std::greater<>());
    const auto chosen = static_cast<size_t>(config.chosen);
    margins[r] = selection[chosen - 1] - selection[chosen];
  }
  return margins;
}

void trace_routing(const LayerContext& context, const MoeWeights& weights) {
  if (!context.trace.on()) return;
  const FeedForwardConfig& config = context.config.ffn;
  const Workspace& work = context.work;
  context.trace.emit("moe_topk_ids", view(work.chosen.data(), {context.rows(), config.chosen}));
  context.trace.emit("moe_topk_weights", view(work.weights.data(), {context.rows(), config.chosen}));
  const std::vector<float> margins = choice_margins(context, weights);
  context.trace.emit("moe_choice_margin", view(margins.data(), {context.rows()}));
}

}  // namespace

Status run_dense(const LayerContext& context, const DenseWeights& weights) {
  Workspace& work = context.work;
  SILT_TRY(gate_up(context, weights));
  return multiply({&weights.down, work.narrow.view(context.rows(), weights.width), work.delta.view(context.rows())},
                  context.threads());
}

Status run_moe(const LayerContext& context, const MoeWeights& weights) {
  const FeedForwardConfig& config = context.config.ffn;
  Workspace& work = context.work;
  const int64_t rows = context.rows();
  const int threads = context.threads();
  const TensorView hidden = work.hidden.view(rows);
  const bool latent = config.latent > 0;
  const bool shared = weights.shared.width > 0;

  std::vector<Product>& products = work.products;
  products.clear();
  products.push_back({&weights.router, hidden, work.scores.view(rows)});
  if (latent) products.push_back({&weights.latent_down, hidden, work.latent.view(rows)});
  if (shared) products.push_back({&weights.shared.gate_up, hidden, work.wide.view(rows, 2 * weights.shared.width)});
  SILT_TRY(multiply(products, threads));
  route(context, weights);
  trace_routing(context, weights);
  const TensorView in = latent ? work.latent.view(rows) : hidden;
  context.trace.emit("moe_latent_in", in);
  products.clear();
  plan_gate_up(context, weights, in);
  SILT_TRY(multiply(products, threads));
  const int64_t assignments = rows * config.chosen;
  gated_activation(work.expert_wide.view(assignments), config, work.expert_narrow.view(assignments), threads);
  products.clear();
  plan_down(context, weights);
  if (shared) {
    const TensorView narrow = work.narrow.view(rows, weights.shared.width);
    gated_activation(work.wide.view(rows, 2 * weights.shared.width), config, narrow, threads);
    products.push_back({&weights.shared.down, narrow, work.shared.view(rows)});
  }
  SILT_TRY(multiply(products, threads));
  const int64_t width = in.shape[1];
  combine(context, width);
  TensorView routed = work.expert_sum.view(rows, width);
  context.trace.emit("moe_latent_sum", routed);

  if (latent) {
    TensorView sum = routed;
    if (config.latent_norm) {
      sum = work.latent.view(rows);  // its rows have been read by the experts
      rms_norm(routed, weights.latent_norm, context.config.eps, sum, threads);
    }
    routed = work.routed.view(rows);
    SILT_TRY(multiply({&weights.latent_up, sum, routed}, threads));
  }
  context.trace.emit("moe_routed_out", routed);
  if (shared) {
    add_rows(routed, work.shared.view(rows), work.delta.view(rows), threads);
  } else {
    convert_rows(routed, work.delta.view(rows), threads);
  }
  return {};
}

}  // namespace silt
