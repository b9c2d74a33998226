// MLA in its absorbed form: queries are taken into the latent space, so that scores and the weighted sum read the
// cached rows [latent | shared key] as they are, for prefill and decode alike. No rotation (the model has no
// positions).
//
// Rounding: latents and queries are rounded to the activation type, scores, softmax and context are fp32.
// A row's bits depend on its own query and the cache: tiles of positions are fixed, rows of other tokens do not enter,
// and positions behind the row's own contribute exact zeros.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/status.hpp"
#include "core/tasks.hpp"
#include "model/cpu/cpu_parts.hpp"
#include "model/decoder.hpp"
#include "model/glue.hpp"

namespace silt {
namespace {

/// Rows (token, head) of one work item: enough that a tile of the cache is read from memory once for many rows, few
/// enough to split over cores.
constexpr int64_t kItemRows = 64;
/// Below so many multiply-adds the caller works alone.
constexpr int64_t kWorkAlone = 100000;

/// Columns of the fused projection.
struct MlaColumns {
  int64_t query = 0;
  int64_t latent = 0;
  int64_t shared = 0;
  int64_t gate = 0;
  int64_t all = 0;
};

MlaColumns columns_of_mla(const MlaConfig& c, const MlaWeights& weights) {
  MlaColumns columns;
  columns.latent = weights.query_columns;
  columns.shared = columns.latent + c.latent;
  columns.gate = columns.shared + c.shared;
  columns.all = columns.gate + (c.output_gate ? c.heads * c.value : 0);
  return columns;
}

using Item = AttentionItem;

struct AttentionArgs {
  int64_t heads = 0;
  int64_t width = 0;         ///< of a cached row
  int64_t latent = 0;        ///< the part of it that is summed
  float scale = 1.0F;        ///< of the scores
  ConstTensorView cache;     ///< [slots, capacity, width]
  float* queries = nullptr;  ///< [rows, heads, width]; lost
  float* context = nullptr;  ///< [rows, heads, latent]
};

/// The running softmax of an item's rows.
struct ItemRows {
  alignas(64) float scores[kItemRows * kTilePositions];
  float largest[kItemRows];
  float total[kItemRows];
  float factor[kItemRows];
};

void attend(const AttentionArgs& args, const Item& item) {
  const AttentionKernels& kernels = cpu_parts().attention;
  const size_t key = type_index(args.cache.dtype);
  const Segment& segment = *item.segment;
  const int64_t first_row = segment.first * args.heads + item.first;
  ItemRows rows;
  std::fill_n(rows.largest, item.rows, -std::numeric_limits<float>::infinity());
  std::fill_n(rows.total, item.rows, 0.0F);
  float* queries = args.queries + first_row * args.width;
  for (int64_t r = 0; r < item.rows; ++r) kernels.arrange[key](queries + r * args.width, args.width);
  float* sums = args.context + first_row * args.latent;
  std::fill_n(sums, item.rows * args.latent, 0.0F);
  AttentionTile tile{.queries = queries,
                     .rows = item.rows,
                     .width = args.width,
                     .latent = args.latent,
                     .scores = rows.scores,
                     .factors = rows.factor,
                     .sums = sums};
  // Cached rows up to the last one that any row of the item sees; what a slot held before is behind them.
  const int64_t end = segment.position + (item.first + item.rows - 1) / args.heads + 1;
  for (int64_t start = 0; start < end; start += kTilePositions) {
    const int64_t offset = segment.slot * args.cache.stride[0] + start * args.width;
    tile.keys =
        static_cast<const std::byte*>(args.cache.data) + static_cast<size_t>(offset) * size_of(args.cache.dtype);
    tile.positions = std::min(kTilePositions, end - start);
    kernels.score[key](tile);
    for (int64_t r = 0; r < item.rows; ++r) {
      const int64_t position = segment.position + (item.first + r) / args.heads;
      const int64_t visible = std::clamp<int64_t>(position - start + 1, 0, kTilePositions);
      rows.factor[r] =
          kernels.softmax(rows.scores + r * kTilePositions, visible, args.scale, &rows.largest[r], &rows.total[r]);
    }
    kernels.mix[key](tile);
  }
  for (int64_t r = 0; r < item.rows; ++r) {
    float* row = sums + r * args.latent;
    for (int64_t c = 0; c < args.latent; ++c) row[c] /= rows.total[r];
    kernels.restore[key](row, args.latent);
  }
}

void attend_all(const AttentionArgs& args, const Pass& pass, int threads, std::vector<Item>* items) {
  items->clear();
  // Fewer rows per item where that keeps every thread busy.
  const int64_t share = pass.rows() * args.heads / resolve_threads(threads);
  const int64_t step = std::clamp<int64_t>(share, 1, kItemRows);
  int64_t work = 0;
  for (const Segment& segment : pass.segments) {
    const int64_t rows = segment.rows * args.heads;
    work += rows * (segment.position + segment.rows) * args.width;
    for (int64_t first = 0; first < rows; first += step) {
      items->push_back({&segment, first, std::min(step, rows - first)});
    }
  }
  parallel_tasks(static_cast<int64_t>(items->size()), work < kWorkAlone ? 1 : threads, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) attend(args, (*items)[static_cast<size_t>(i)]);
  });
}

/// Normalised latents and shared key parts of the new tokens to their places in the cache.
void store_cache(const LayerContext& context, const MlaWeights& weights, const TensorView& projection,
                 const MlaColumns& columns, const TensorView& cache) {
  const MlaConfig& c = context.config.mla;
  for (const Segment& segment : context.pass.segments) {
    TensorView target = cache;
    const int64_t offset = segment.slot * cache.stride[0] + segment.position * cache.stride[1];
    target.data = static_cast<std::byte*>(cache.data) + static_cast<size_t>(offset) * size_of(cache.dtype);
    target.rank = 2;
    target.shape = {segment.rows, c.cache_width()};
    target.stride = {c.cache_width(), 1};
    TensorView source = projection;
    source.data = static_cast<std::byte*>(projection.data) +
                  static_cast<size_t>(segment.first * projection.stride[0]) * size_of(projection.dtype);
    source.shape[0] = segment.rows;
    const TensorView latent = columns_of(target, 0, c.latent);
    const TensorView shared = columns_of(target, c.latent, c.shared);
    rms_norm(columns_of(source, columns.latent, c.latent), weights.latent_norm, context.config.eps, latent,
             context.threads());
    convert_rows(columns_of(source, columns.shared, c.shared), shared, context.threads());
    context.trace.emit("mla_latent", latent);
    context.trace.emit("mla_k_shared", shared);
  }
}

/// work.query -> work.latent_query: per head [key_up q | shared part of q].
Status absorb_queries(const LayerContext& context, const MlaWeights& weights, const TensorView& query) {
  const MlaConfig& c = context.config.mla;
  const TensorView wide = context.work.latent_query.view(context.rows());
  std::vector<Product>& products = context.work.products;
  products.clear();
  for (int64_t h = 0; h < c.heads; ++h) {
    products.push_back({&weights.key_up[static_cast<size_t>(h)], columns_of(query, h * c.query_width(), c.nope),
                        columns_of(wide, h * c.cache_width(), c.latent)});
    convert_rows(columns_of(query, h * c.query_width() + c.nope, c.shared),
                 columns_of(wide, h * c.cache_width() + c.latent, c.shared), context.threads());
  }
  return multiply(products, context.threads());
}

}  // namespace

Status run_mla(const LayerContext& context, const MlaWeights& weights, Buffer& cache, int64_t capacity) {
  const MlaConfig& c = context.config.mla;
  Workspace& work = context.work;
  const int64_t rows = context.rows();
  const int threads = context.threads();
  const MlaColumns columns = columns_of_mla(c, weights);
  const TensorView projection = work.projection.view(rows, columns.all);
  SILT_TRY(multiply({&weights.projection, work.hidden.view(rows), projection}, threads));
  TensorView query = columns_of(projection, 0, weights.query_columns);
  if (c.query_rank > 0) {
    rms_norm(query, weights.query_norm, context.config.eps, work.query_a.view(rows), threads);
    query = work.query.view(rows);
    SILT_TRY(multiply({&weights.query_b, work.query_a.view(rows), query}, threads));
  }
  context.trace.emit("mla_q", as_heads(query, c.heads));

  const int64_t slots = static_cast<int64_t>(cache.bytes() / size_of(projection.dtype)) / (capacity * c.cache_width());
  const TensorView cached =
      detail::make_view<TensorView>(cache.data(), projection.dtype, {slots, capacity, c.cache_width()}, {}, Device{});
  store_cache(context, weights, projection, columns, cached);
  SILT_TRY(absorb_queries(context, weights, query));

  const TensorView summed = work.context.view(rows);
  attend_all({.heads = c.heads,
              .width = c.cache_width(),
              .latent = c.latent,
              .scale = 1.0F / std::sqrt(static_cast<float>(c.query_width())),
              .cache = cached,
              .queries = work.latent_query.data.as<float>(),
              .context = work.context.data.as<float>()},
             context.pass, threads, &work.attention_items);
  const TensorView mixed = work.mixed.view(rows, c.heads * c.value);
  std::vector<Product>& products = work.products;
  products.clear();
  for (int64_t h = 0; h < c.heads; ++h) {
    products.push_back({&weights.value_up[static_cast<size_t>(h)], columns_of(summed, h * c.latent, c.latent),
                        columns_of(mixed, h * c.value, c.value)});
  }
  SILT_TRY(multiply(products, threads));
  context.trace.emit("mla_core_out", as_heads(mixed, c.heads));
  if (c.output_gate) {
    const TensorView gate = columns_of(projection, columns.gate, c.heads * c.value);
    context.trace.emit("mla_gate", gate);
    sigmoid_gate(mixed, gate, threads);
  }
  return multiply({&weights.o, mixed, work.attended.view(rows)}, threads);
}

}  // namespace silt
