#include "model/workspace.hpp"

#include <algorithm>
#include <new>

#include "core/status.hpp"
#include "model/cpu/rows.hpp"
#include "model/weights.hpp"

namespace silt {
namespace {

struct Widths {
  int64_t projection = 0;
  int64_t mixed = 0;
  int64_t feed_forward = 0;
};

Widths widths_of(const ModelConfig& c) {
  const KdaColumns kda{c.kda.channels(), c.kda.heads, c.kda.full_rank_gate};
  const int64_t query = c.mla.query_rank > 0 ? c.mla.query_rank : c.mla.heads * c.mla.query_width();
  const int64_t mla = query + c.mla.cache_width() + (c.mla.output_gate ? c.mla.heads * c.mla.value : 0);
  return {std::max(kda.all(), mla), std::max(c.kda.channels(), c.mla.heads * c.mla.value),
          std::max(c.ffn.dense_width, c.ffn.shared_width)};
}

}  // namespace

Status allocate(std::string_view what, std::initializer_list<int64_t> sizes, size_t element_bytes, Buffer* buffer) {
  auto bytes = static_cast<int64_t>(element_bytes);
  bool fits = true;
  for (const int64_t size : sizes) fits = fits && !__builtin_mul_overflow(bytes, size, &bytes);
  try {
    if (!fits) throw std::bad_alloc();
    *buffer = Buffer(static_cast<size_t>(bytes));
  } catch (const std::bad_alloc&) {
    return failed(StatusCode::out_of_memory,
                  "session: {}: has no memory for {} bytes, needs fewer slots or a smaller context", what,
                  fits ? fmt::format("{}", bytes) : "2^63 or more");
  }
  return {};
}

Status Workspace::make(const ModelConfig& config, Precision precision, int64_t rows) {
  const DType act = activation_type(precision);
  const int64_t d = config.hidden;
  const MlaConfig& mla = config.mla;
  const FeedForwardConfig& ffn = config.ffn;
  const Widths widths = widths_of(config);
  const int64_t in = ffn.latent > 0 ? ffn.latent : d;
  for (Rows* part : {&prefix, &delta, &attended, &hidden, &final_hidden, &final_normed}) {
    SILT_TRY(part->make("activations", act, rows, d));
  }
  SILT_TRY(bank.make("depth blocks", act, rows, config.depth_blocks() * d));
  SILT_TRY(projection.make("projections", act, rows, widths.projection));
  SILT_TRY(gate.make("gates", act, rows, config.kda.channels()));
  if (!config.kda.full_rank_gate) SILT_TRY(output_gate.make("output gates", act, rows, config.kda.channels()));
  SILT_TRY(mixed.make("attention rows", act, rows, widths.mixed));
  SILT_TRY(query_a.make("queries", act, rows, mla.query_rank));
  SILT_TRY(query.make("queries", act, rows, mla.heads * mla.query_width()));
  SILT_TRY(latent_query.make("latent queries", DType::f32, rows, mla.heads * mla.cache_width()));
  SILT_TRY(context.make("attention context", DType::f32, rows, mla.heads * mla.latent));
  SILT_TRY(wide.make("feed-forward rows", DType::f32, rows, 2 * widths.feed_forward));
  SILT_TRY(narrow.make("feed-forward rows", act, rows, widths.feed_forward));
  SILT_TRY(scores.make("router scores", DType::f32, rows, ffn.experts));
  SILT_TRY(latent.make("latent rows", act, rows, ffn.latent));
  SILT_TRY(expert_wide.make("expert rows", DType::f32, rows * ffn.chosen, 2 * ffn.expert_width));
  SILT_TRY(expert_narrow.make("expert rows", act, rows * ffn.chosen, ffn.expert_width));
  SILT_TRY(expert_out.make("expert rows", DType::f32, rows * ffn.chosen, ffn.experts > 0 ? in : 0));
  SILT_TRY(expert_sum.make("expert sums", DType::f32, rows, ffn.experts > 0 ? in : 0));
  SILT_TRY(routed.make("routed rows", DType::f32, rows, ffn.latent > 0 ? d : 0));
  SILT_TRY(shared.make("shared rows", DType::f32, rows, ffn.shared_width > 0 ? d : 0));
  const auto assignments = static_cast<size_t>(rows * ffn.chosen);
  chosen.resize(assignments);
  weights.resize(assignments);
  sorted_row.resize(assignments);
  sorted_from.resize(assignments);
  expert_begin.resize(static_cast<size_t>(ffn.experts) + 1);
  expert_next.resize(static_cast<size_t>(ffn.experts));
  return {};
}

int64_t Workspace::bytes() const {
  size_t sum = 0;
  for (const Rows* part : {&prefix,      &delta,  &attended,     &bank,        &hidden,        &projection, &gate,
                           &output_gate, &mixed,  &query_a,      &query,       &latent_query,  &context,    &wide,
                           &narrow,      &scores, &latent,       &expert_wide, &expert_narrow, &expert_out, &expert_sum,
                           &routed,      &shared, &final_hidden, &final_normed}) {
    sum += part->data.bytes();
  }
  return static_cast<int64_t>(sum);
}

Status SlotPools::make(const ModelConfig& config, Precision precision, int64_t slot_count, int64_t context) {
  slots = slot_count;
  capacity = (context + kTilePositions - 1) / kTilePositions * kTilePositions;
  const size_t act = size_of(activation_type(precision));
  const auto layers = static_cast<size_t>(config.layers());
  kda.resize(layers);
  mla.resize(layers);
  for (size_t i = 0; i < layers; ++i) {
    if (config.attention[i] == AttentionKind::kda) {
      SILT_TRY(
          allocate("convolution histories", {slots, kConvTaps - 1, 3 * config.kda.channels()}, act, &kda[i].history));
      SILT_TRY(
          allocate("recurrent states", {slots, config.kda.heads, kKdaWidth, kKdaWidth}, sizeof(float), &kda[i].state));
    } else {
      SILT_TRY(allocate("attention cache", {slots, capacity, config.mla.cache_width()}, act, &mla[i]));
    }
  }
  return {};
}

int64_t SlotPools::bytes() const {
  size_t sum = 0;
  for (const Kda& layer : kda) sum += layer.history.bytes() + layer.state.bytes();
  for (const Buffer& layer : mla) sum += layer.bytes();
  return static_cast<int64_t>(sum);
}

}  // namespace silt
