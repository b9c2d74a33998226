// Memory of a session: activations of one pass, and what sequences keep between passes. Sized once.
#pragma once

#include <string_view>
#include <vector>

#include "silt/status.hpp"
#include "silt/tensor.hpp"

#include "core/buffer.hpp"
#include "model/config.hpp"
#include "model/pass.hpp"
#include "model/products.hpp"

namespace silt {

/// Zeroed memory of the product of `sizes` elements; out_of_memory names `what` and the bytes.
Status allocate(std::string_view what, std::initializer_list<int64_t> sizes, size_t element_bytes, Buffer* buffer);

/// Activation rows, dense.
struct Rows {
  DType dtype = DType::f32;
  int64_t cols = 0;
  Buffer data;

  Status make(std::string_view what, DType type, int64_t rows, int64_t columns) {
    dtype = type;
    cols = columns;
    return allocate(what, {rows, columns}, size_of(type), &data);
  }
  /// The first `count` rows as [count, cols]; with `width` they are packed as [count, width].
  [[nodiscard]] TensorView view(int64_t count) { return view(count, cols); }
  [[nodiscard]] TensorView view(int64_t count, int64_t width) {
    return detail::make_view<TensorView>(data.as<std::byte>(), dtype, {count, width}, {}, Device{});
  }
};

/// Some rows of a segment. Row r is token r / heads, head r % heads of it.
struct AttentionItem {
  const Segment* segment = nullptr;
  int64_t first = 0;
  int64_t rows = 0;
};

struct Workspace {
  Rows prefix, delta, attended;     ///< [T, D]; attended: output of attention
  Rows bank;                        ///< [T, depth blocks * D]
  Rows hidden;                      ///< [T, D], normalised: what a sublayer reads
  Rows projection;                  ///< [T, widest fused projection]
  Rows gate, output_gate;           ///< [T, P]
  Rows mixed;                       ///< [T, P or heads * value]
  Rows query_a, query;              ///< [T, rank], [T, heads * query width]
  Rows latent_query;                ///< fp32 [T, heads * cache width]
  Rows context;                     ///< fp32 [T, heads * latent]
  Rows wide;                        ///< fp32 [T, 2 * dense or shared width]
  Rows narrow;                      ///< [T, dense or shared width]
  Rows scores;                      ///< fp32 [T, experts]
  Rows latent;                      ///< [T, latent]
  Rows expert_wide;                 ///< fp32 [T * chosen, 2 * expert width]
  Rows expert_narrow;               ///< [T * chosen, expert width]
  Rows expert_out;                  ///< fp32 [T * chosen, L]
  Rows expert_sum, routed, shared;  ///< fp32 [T, L], [T, D], [T, D]
  Rows final_hidden, final_normed;  ///< [T, D]
  // Routing of a pass: per row the chosen experts and their weights; the same sorted by expert.
  std::vector<int32_t> chosen;
  std::vector<float> weights;
  std::vector<int32_t> sorted_row;   ///< row of the i-th assignment in expert order
  std::vector<int32_t> sorted_from;  ///< assignment (row, choice) -> its place in expert order
  std::vector<int32_t> expert_begin;
  std::vector<int32_t> expert_next;  ///< while sorting
  // What a layer hands out to the workers; kept, so that a warm pass allocates nothing.
  std::vector<Product> products;
  std::vector<AttentionItem> attention_items;

  Status make(const ModelConfig& config, Precision precision, int64_t rows);
  [[nodiscard]] int64_t bytes() const;
};

/// What the sequences of a session keep. Pool slot i belongs to session slot i.
struct SlotPools {
  struct Kda {
    Buffer history;  ///< activation type [slots, 3, 3P]: oldest first, channels contiguous ("SD")
    Buffer state;    ///< fp32 [slots, H, 128 (V), 128 (K)]
  };
  std::vector<Kda> kda;     ///< per layer; empty for MLA
  std::vector<Buffer> mla;  ///< per layer: activation type [slots, capacity, latent + shared]; empty for KDA
  int64_t slots = 0;
  int64_t capacity = 0;  ///< the context, rounded up to whole attention tiles

  Status make(const ModelConfig& config, Precision precision, int64_t slot_count, int64_t context);
  [[nodiscard]] int64_t bytes() const;
};

constexpr DType activation_type(Precision precision) { return precision == Precision::bf16 ? DType::bf16 : DType::f32; }

}  // namespace silt
