// Dense and mixture-of-experts feed-forward. Experts work in a latent space where the model has one.
//
// An expert's rows are gathered, go through its two products together and are written back by assignment; each row then
// sums its own experts in the order of its choice. So a row's result does not depend on which rows it was gathered
// with.
#include <algorithm>
#include <mutex>

#include "core/status.hpp"
#include "core/workers.hpp"
#include "model/decoder.hpp"
#include "model/fast_math.hpp"
#include "model/glue.hpp"

namespace silt {
namespace {

/// Rows of one expert that go through its products at once.
constexpr int64_t kExpertRows = 64;

/// The gated MLP up to its last product's input: hidden -> work.narrow.
Status gate_up(const LayerContext& context, const DenseWeights& weights) {
  Workspace& work = context.work;
  const TensorView wide = work.wide.view(context.rows(), 2 * weights.width);
  SILT_TRY(multiply({&weights.gate_up, work.hidden.view(context.rows()), wide}, context.threads()));
  gated_activation(wide, context.config.ffn, work.narrow.view(context.rows(), weights.width), context.threads());
  return {};
}

/// The `chosen` best of score + correction, best first; the lower index wins a tie. Weights are the scores alone.
void choose_experts(const float* logits, std::span<const float> correction, const FeedForwardConfig& config,
                    std::vector<float>* scores, int32_t* chosen, float* weights) {
  const auto experts = static_cast<size_t>(config.experts);
  scores->resize(2 * experts);
  float* score = scores->data();
  float* biased = score + experts;
  for (size_t e = 0; e < experts; ++e) {
    score[e] = fast_sigmoid(logits[e]);
    biased[e] = score[e] + correction[e];
  }
  float sum = 0;
  for (int64_t i = 0; i < config.chosen; ++i) {
    size_t best = experts;
    for (size_t e = 0; e < experts; ++e) {
      const bool taken = std::find(chosen, chosen + i, static_cast<int32_t>(e)) != chosen + i;
      if (!taken && (best == experts || biased[e] > biased[best])) best = e;
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
  const auto* logits = work.scores.data.as<float>();
  parallel_ranges(rows, threads_for(rows * config.experts * (2 + config.chosen), context.threads()),
                  [&](int64_t begin, int64_t end) {
                    thread_local std::vector<float> scores;
                    for (int64_t r = begin; r < end; ++r) {
                      choose_experts(logits + r * config.experts, weights.correction, config, &scores,
                                     work.chosen.data() + r * config.chosen, work.weights.data() + r * config.chosen);
                    }
                  });
  // Counting sort of the assignments by expert, rows ascending within one.
  const auto assignments = static_cast<size_t>(rows * config.chosen);
  std::fill(work.expert_begin.begin(), work.expert_begin.end(), 0);
  for (size_t i = 0; i < assignments; ++i) ++work.expert_begin[static_cast<size_t>(work.chosen[i]) + 1];
  for (size_t e = 1; e < work.expert_begin.size(); ++e) work.expert_begin[e] += work.expert_begin[e - 1];
  std::vector<int32_t> next(work.expert_begin.begin(), work.expert_begin.end() - 1);
  for (size_t i = 0; i < assignments; ++i) {
    const int32_t place = next[static_cast<size_t>(work.chosen[i])]++;
    work.sorted_from[i] = place;
    work.sorted_row[static_cast<size_t>(place)] = static_cast<int32_t>(i / static_cast<size_t>(config.chosen));
  }
}

struct ExpertItem {
  size_t expert = 0;
  int64_t first = 0;  ///< place in expert order
  int64_t rows = 0;
};

/// Some rows of one expert: gather, gate and up, activation, down into their places of expert_out.
Status run_expert(const LayerContext& context, const MoeWeights& weights, const TensorView& in,
                  const ExpertItem& item) {
  const FeedForwardConfig& config = context.config.ffn;
  Workspace& work = context.work;
  const int64_t width = in.shape[1];
  const size_t act = size_of(in.dtype);
  const size_t row_bytes = static_cast<size_t>(width) * act;
  thread_local std::vector<std::byte> gathered;
  thread_local std::vector<float> wide;
  thread_local std::vector<std::byte> narrow;
  gathered.resize(std::max(gathered.size(), static_cast<size_t>(kExpertRows) * row_bytes));
  wide.resize(std::max(wide.size(), static_cast<size_t>(kExpertRows * 2 * config.expert_width)));
  narrow.resize(std::max(narrow.size(), static_cast<size_t>(kExpertRows * config.expert_width) * act));
  for (int64_t i = 0; i < item.rows; ++i) {
    const int64_t row = work.sorted_row[static_cast<size_t>(item.first + i)];
    const auto* source = static_cast<const std::byte*>(in.data) + static_cast<size_t>(row * in.stride[0]) * act;
    std::copy_n(source, row_bytes, gathered.data() + static_cast<size_t>(i) * row_bytes);
  }
  const auto rows_of = [&](std::byte* data, int64_t cols) {
    return detail::make_view<TensorView>(data, in.dtype, {item.rows, cols}, {}, Device{});
  };
  const TensorView gate_up_rows = view(wide.data(), {item.rows, 2 * config.expert_width});
  const TensorView activated = rows_of(narrow.data(), config.expert_width);
  SILT_TRY(multiply_here({&weights.gate_up[item.expert], rows_of(gathered.data(), width), gate_up_rows}));
  gated_activation(gate_up_rows, config, activated, 1);
  const TensorView out = view(work.expert_out.data.as<float>() + item.first * width, {item.rows, width});
  return multiply_here({&weights.down[item.expert], activated, out});
}

Status run_experts(const LayerContext& context, const MoeWeights& weights, const TensorView& in) {
  const Workspace& work = context.work;
  std::vector<ExpertItem> items;
  for (size_t e = 0; e + 1 < work.expert_begin.size(); ++e) {
    for (int64_t first = work.expert_begin[e]; first < work.expert_begin[e + 1]; first += kExpertRows) {
      items.push_back({e, first, std::min(kExpertRows, work.expert_begin[e + 1] - first)});
    }
  }
  std::mutex mutex;
  Status result;
  parallel_ranges(static_cast<int64_t>(items.size()), context.threads(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (Status status = run_expert(context, weights, in, items[static_cast<size_t>(i)]); !status.ok()) {
        const std::lock_guard lock(mutex);
        result = std::move(status);
      }
    }
  });
  return result;
}

SILT_LOOP void add_scaled(const float* part, float weight, float* sum, int64_t n) {
  for (int64_t i = 0; i < n; ++i) sum[i] += weight * part[i];
}

/// Per row: the weighted sum of its experts' outputs, in the order of its choice.
void combine(const LayerContext& context, int64_t width) {
  Workspace& work = context.work;
  const int64_t chosen = context.config.ffn.chosen;
  const auto* parts = work.expert_out.data.as<float>();
  auto* sums = work.expert_sum.data.as<float>();
  const int64_t rows = context.rows();
  parallel_ranges(rows, threads_for(rows * width * chosen, context.threads()), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      float* sum = sums + r * width;
      std::fill_n(sum, width, 0.0F);
      for (int64_t j = 0; j < chosen; ++j) {
        const auto assignment = static_cast<size_t>(r * chosen + j);
        on_cpu<add_scaled>(parts + work.sorted_from[assignment] * width, work.weights[assignment], sum, width);
      }
    }
  });
}

void trace_routing(const LayerContext& context) {
  if (!context.trace.on()) return;
  const FeedForwardConfig& config = context.config.ffn;
  const Workspace& work = context.work;
  context.trace.emit("moe_topk_ids", view(work.chosen.data(), {context.rows(), config.chosen}));
  context.trace.emit("moe_topk_weights", view(work.weights.data(), {context.rows(), config.chosen}));
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

  std::vector<Product> first = {{&weights.router, hidden, work.scores.view(rows)}};
  if (latent) first.push_back({&weights.latent_down, hidden, work.latent.view(rows)});
  if (shared) first.push_back({&weights.shared.gate_up, hidden, work.wide.view(rows, 2 * weights.shared.width)});
  SILT_TRY(multiply(first, threads));
  route(context, weights);
  trace_routing(context);
  const TensorView in = latent ? work.latent.view(rows) : hidden;
  context.trace.emit("moe_latent_in", in);
  SILT_TRY(run_experts(context, weights, in));
  const int64_t width = in.shape[1];
  combine(context, width);
  TensorView routed = work.expert_sum.view(rows, width);
  context.trace.emit("moe_latent_sum", routed);

  std::vector<Product> last;
  if (latent) {
    TensorView sum = routed;
    if (config.latent_norm) {
      sum = work.latent.view(rows);  // its rows have been read by the experts
      rms_norm(routed, weights.latent_norm, context.config.eps, sum, threads);
    }
    routed = work.routed.view(rows);
    last.push_back({&weights.latent_up, sum, routed});
  }
  if (shared) {
    const TensorView narrow = work.narrow.view(rows, weights.shared.width);
    gated_activation(work.wide.view(rows, 2 * weights.shared.width), config, narrow, threads);
    last.push_back({&weights.shared.down, narrow, work.shared.view(rows)});
  }
  if (!last.empty()) SILT_TRY(multiply(last, threads));
  context.trace.emit("moe_routed_out", routed);
  if (shared) {
    add_rows(routed, work.shared.view(rows), work.delta.view(rows), threads);
  } else {
    copy_scaled(routed, 1.0F, work.delta.view(rows), threads);
  }
  return {};
}

}  // namespace silt
