// Signatures of what the decoder does to rows between products, and of attention over a tile of the cache. Pointers to
// activations are void: the tables have one function per type, at [type of x][type of y].
#pragma once

#include <array>
#include <cstdint>

#include "silt/dtype.hpp"
#include "silt/tensor.hpp"

namespace silt {

/// Place of a type in a table.
constexpr size_t type_index(DType dtype) { return dtype == DType::bf16 ? 0 : 1; }
template <class F>
using PerType = std::array<F, 2>;

struct RowKernels {
  using RmsNorm = void (*)(const void* x, const float* weight, float eps, void* y, int64_t n);
  using Situ = void (*)(const float* gate, const float* up, float beta, float linear_beta, void* y, int64_t n);
  using Swiglu = void (*)(const float* gate, const float* up, void* y, int64_t n);
  using SigmoidGate = void (*)(const void* gate, void* x, int64_t n);
  using Convert = void (*)(const void* x, void* y, int64_t n);
  using Sum = void (*)(const float* a, const float* b, void* y, int64_t n);
  PerType<PerType<RmsNorm>> rms_norm{};
  PerType<Situ> situ{};
  PerType<Swiglu> swiglu{};
  PerType<SigmoidGate> sigmoid_gate{};  ///< gate and x of one type
  PerType<PerType<Convert>> convert{};  ///< one rounding where y is narrower
  PerType<Sum> sum{};
  void (*add_scaled)(const float* part, float weight, float* sum, int64_t n) = nullptr;
  void (*sigmoid)(const float* x, float* y, int64_t n) = nullptr;
};

/// Positions of the cache that attention takes at once.
constexpr int64_t kTilePositions = 64;

/// Rows of queries against some positions of a cache.
struct AttentionTile {
  const float* queries = nullptr;  ///< [rows, width]
  int64_t rows = 0;
  const void* keys = nullptr;  ///< [positions, width]; the first `latent` columns are summed
  int64_t positions = 0;       ///< at most kTilePositions
  int64_t width = 0;
  int64_t latent = 0;
  float* scores = nullptr;         ///< [rows, kTilePositions]
  const float* factors = nullptr;  ///< [rows]
  float* sums = nullptr;           ///< [rows, latent]
};

/// By type of the keys. The order of columns of queries and sums is the kernels' own: `arrange` is called once for a
/// query of `width` columns, `restore` for sums of `latent`.
struct AttentionKernels {
  /// scores[r][p] = queries[r] . keys[p]
  PerType<void (*)(const AttentionTile& tile)> score{};
  /// sums[r] = factors[r] * sums[r] + the keys' latents times scores[r]
  PerType<void (*)(const AttentionTile& tile)> mix{};
  /// Turns a row of scores into exp(scale * score - largest), zeros from `visible` on, with `largest` and `total`
  /// brought up to date; returns the factor of what was summed before.
  float (*softmax)(float* scores, int64_t visible, float scale, float* largest, float* total) = nullptr;
  PerType<void (*)(float* query, int64_t width)> arrange{};
  PerType<void (*)(float* sums, int64_t latent)> restore{};
};

}  // namespace silt
