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
#include <mutex>

#include "core/status.hpp"
#include "core/workers.hpp"
#include "model/decoder.hpp"
#include "model/fast_math.hpp"
#include "model/glue.hpp"

namespace silt {
namespace {

/// Rows (token, head) of one work item: enough to pay for widening a tile to fp32, few enough to split over cores.
constexpr int64_t kItemRows = 8 * kMostSmallRows;

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

/// Some rows of one segment. Row r is token r / heads, head r % heads of the segment.
struct Item {
  const Segment* segment = nullptr;
  int64_t first = 0;
  int64_t rows = 0;
};

struct AttentionArgs {
  int64_t heads = 0;
  int64_t width = 0;               ///< of a cached row
  int64_t latent = 0;              ///< the part of it that is summed
  ConstTensorView cache;           ///< [slots, capacity, width]
  const float* queries = nullptr;  ///< [rows, heads, width], scaled
  float* context = nullptr;        ///< [rows, heads, latent]
};

/// Per-thread memory of an item; one row more than an item has, because products take at least two.
struct ItemScratch {
  std::vector<float> tile;
  std::vector<float> scores;
  std::vector<float> sums;
  std::vector<float> largest;
  std::vector<float> total;

  void fit(const AttentionArgs& args) {
    const auto grow = [](std::vector<float>* buffer, int64_t size) {
      if (static_cast<int64_t>(buffer->size()) < size) buffer->resize(static_cast<size_t>(size));
    };
    grow(&tile, kTilePositions * args.width);
    grow(&scores, (kItemRows + 1) * kTilePositions);
    grow(&sums, (kItemRows + 1) * args.latent);
    grow(&largest, kItemRows);
    grow(&total, kItemRows);
  }
};

SILT_LOOP void widen(const bf16* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = to_float(from[i]);
}

SILT_LOOP void scale_row(float* row, float factor, int64_t n) {
  for (int64_t i = 0; i < n; ++i) row[i] *= factor;
}

SILT_LOOP float largest_of(const float* scores, int64_t n) {
  float most = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < n; ++i) most = scores[i] > most ? scores[i] : most;
  return most;
}

/// exp(score - largest) in place, zeros from `visible` on; their sum.
SILT_LOOP float exponentials(float* scores, int64_t visible, float largest) {
  constexpr int64_t kLanes = 16;
  for (int64_t i = 0; i < kTilePositions; ++i) scores[i] = fast_exp(scores[i] - largest);
  for (int64_t i = visible; i < kTilePositions; ++i) scores[i] = 0.0F;
  float lanes[kLanes] = {};
  for (int64_t i = 0; i < kTilePositions; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += scores[i + lane];
  }
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

/// Cached rows [first, first + valid) as fp32, zeros behind them: what a slot held before never enters a product.
void load_tile(const ConstTensorView& cache, int64_t slot, int64_t first, int64_t valid, float* tile) {
  const int64_t width = cache.shape[2];
  const int64_t offset = slot * cache.stride[0] + first * width;
  const int64_t count = valid * width;
  if (cache.dtype == DType::bf16) {
    on_cpu<widen>(static_cast<const bf16*>(cache.data) + offset, tile, count);
  } else {
    std::copy_n(static_cast<const float*>(cache.data) + offset, count, tile);
  }
  std::fill(tile + count, tile + kTilePositions * width, 0.0F);
}

/// Turns a row of scores into exp(score - largest); returns the factor of what was summed before.
float softmax_row(float* scores, int64_t visible, float* largest, float* total) {
  if (visible == 0) {
    std::fill_n(scores, kTilePositions, 0.0F);
    return 1.0F;
  }
  const float here = on_cpu<largest_of>(scores, visible);
  const float most = here > *largest ? here : *largest;
  const float sum = on_cpu<exponentials>(scores, visible, most);
  const float factor = *total == 0 ? 0.0F : fast_exp(*largest - most);
  *largest = most;
  *total = *total * factor + sum;
  return factor;
}

/// Calls multiply_small on blocks of kMostSmallRows rows; a block of one row is padded to two.
Status multiply_rows(SmallProduct product, int64_t rows) {
  for (int64_t first = 0; first < rows; first += kMostSmallRows) {
    SmallProduct block = product;
    block.m = std::max<int64_t>(2, std::min(kMostSmallRows, rows - first));
    block.a += first * block.a_stride;
    block.c += first * block.c_stride;
    SILT_TRY(multiply_small(block));
  }
  return {};
}

Status attend(const AttentionArgs& args, const Item& item) {
  thread_local ItemScratch scratch;
  scratch.fit(args);
  const Segment& segment = *item.segment;
  const int64_t first_row = segment.first * args.heads + item.first;
  const float* queries = args.queries + first_row * args.width;
  float* sums = scratch.sums.data();
  std::fill_n(sums, (item.rows + 1) * args.latent, 0.0F);
  std::fill_n(scratch.largest.data(), item.rows, -std::numeric_limits<float>::infinity());
  std::fill_n(scratch.total.data(), item.rows, 0.0F);
  const int64_t stored = segment.position + segment.rows;
  const int64_t end = segment.position + (item.first + item.rows - 1) / args.heads + 1;
  for (int64_t start = 0; start < end; start += kTilePositions) {
    float* tile = scratch.tile.data();
    load_tile(args.cache, segment.slot, start, std::min(kTilePositions, stored - start), tile);
    SILT_TRY(multiply_rows({.n = kTilePositions,
                            .k = args.width,
                            .a = queries,
                            .a_stride = args.width,
                            .b = tile,
                            .b_stride = args.width,
                            .b_transposed = true,
                            .c = scratch.scores.data(),
                            .c_stride = kTilePositions},
                           item.rows));
    for (int64_t r = 0; r < item.rows; ++r) {
      const auto index = static_cast<size_t>(r);
      const int64_t position = segment.position + (item.first + r) / args.heads;
      const int64_t visible = std::clamp<int64_t>(position - start + 1, 0, kTilePositions);
      const float factor = softmax_row(scratch.scores.data() + r * kTilePositions, visible, &scratch.largest[index],
                                       &scratch.total[index]);
      on_cpu<scale_row>(sums + r * args.latent, factor, args.latent);
    }
    SILT_TRY(multiply_rows({.n = args.latent,
                            .k = kTilePositions,
                            .a = scratch.scores.data(),
                            .a_stride = kTilePositions,
                            .b = tile,
                            .b_stride = args.width,
                            .c = sums,
                            .c_stride = args.latent,
                            .add = true},
                           item.rows));
  }
  for (int64_t r = 0; r < item.rows; ++r) {
    on_cpu<scale_row>(sums + r * args.latent, 1.0F / scratch.total[static_cast<size_t>(r)], args.latent);
  }
  std::copy_n(sums, item.rows * args.latent, args.context + first_row * args.latent);
  return {};
}

Status attend_all(const AttentionArgs& args, const Pass& pass, int threads) {
  std::vector<Item> items;
  // Fewer rows per item where that keeps every thread busy; always whole blocks of the products.
  const int64_t share = pass.rows() * args.heads / resolve_threads(threads) / kMostSmallRows * kMostSmallRows;
  const int64_t step = std::clamp(share, kMostSmallRows, kItemRows);
  for (const Segment& segment : pass.segments) {
    const int64_t rows = segment.rows * args.heads;
    for (int64_t first = 0; first < rows; first += step)
      items.push_back({&segment, first, std::min(step, rows - first)});
  }
  std::mutex mutex;
  Status result;
  parallel_ranges(static_cast<int64_t>(items.size()), threads, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (Status status = attend(args, items[static_cast<size_t>(i)]); !status.ok()) {
        const std::lock_guard lock(mutex);
        result = std::move(status);
      }
    }
  });
  return result;
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
    copy_scaled(columns_of(source, columns.shared, c.shared), 1.0F, shared, context.threads());
    context.trace.emit("mla_latent", latent);
    context.trace.emit("mla_k_shared", shared);
  }
}

/// work.query -> work.latent_query: per head [key_up q | shared part of q], scaled.
Status absorb_queries(const LayerContext& context, const MlaWeights& weights, const TensorView& query) {
  const MlaConfig& c = context.config.mla;
  const int64_t rows = context.rows();
  const TensorView wide = context.work.latent_query.view(rows);
  std::vector<Product> products;
  for (int64_t h = 0; h < c.heads; ++h) {
    products.push_back({&weights.key_up[static_cast<size_t>(h)], columns_of(query, h * c.query_width(), c.nope),
                        columns_of(wide, h * c.cache_width(), c.latent)});
  }
  SILT_TRY(multiply(products, context.threads()));
  const float scale = 1.0F / std::sqrt(static_cast<float>(c.query_width()));
  for (int64_t h = 0; h < c.heads; ++h) {
    const TensorView latent = columns_of(wide, h * c.cache_width(), c.latent);
    copy_scaled(latent, scale, latent, context.threads());
    copy_scaled(columns_of(query, h * c.query_width() + c.nope, c.shared), scale,
                columns_of(wide, h * c.cache_width() + c.latent, c.shared), context.threads());
  }
  return {};
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
  SILT_TRY(attend_all({.heads = c.heads,
                       .width = c.cache_width(),
                       .latent = c.latent,
                       .cache = cached,
                       .queries = work.latent_query.data.as<float>(),
                       .context = work.context.data.as<float>()},
                      context.pass, threads));
  const TensorView mixed = work.mixed.view(rows, c.heads * c.value);
  std::vector<Product> products;
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
