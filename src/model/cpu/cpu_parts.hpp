// What the decoder computes itself, per instruction set: tiles of matrix products, rows of activations, attention over
// a tile of the cache. One table per target; the best one that this CPU can run is taken. All of them read the same
// packed weights and give the same bits (sums have a fixed order, multiply-adds are fused), but for the plain loops,
// which every CPU can run and which round their products.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "silt/device.hpp"

#include "model/cpu/rows.hpp"
#include "model/cpu/tiles.hpp"

namespace silt {

struct CpuParts {
  std::string_view name;  ///< "cpu_avx512bf16"
  uint32_t features = 0;  ///< CpuFeature bits that it needs
  TileKernels bf16{};     ///< bf16 weights, rows rounded to bf16
  TileKernels narrow{};   ///< fp32 products of weights that are kept as bf16
  TileKernels f32{};
  RowKernels rows{};
  AttentionKernels attention{};
};

/// The tables that this CPU can run, best first; never empty.
std::span<const CpuParts* const> cpu_parts_here();

/// The table in use: the first of them, or the one that a test forces.
const CpuParts& cpu_parts();

/// For tests: products and activations run by `parts` while this object lives. Not for several threads at once.
class ForceCpuParts {
 public:
  explicit ForceCpuParts(const CpuParts& parts);
  ~ForceCpuParts();
  ForceCpuParts(const ForceCpuParts&) = delete;
  ForceCpuParts& operator=(const ForceCpuParts&) = delete;

 private:
  const CpuParts* before_;
};

// One per source file next to this one; those of other architectures are not built.
const CpuParts& cpu_plain_parts();
const CpuParts& cpu_avx2_parts();
const CpuParts& cpu_avx512_parts();
const CpuParts& cpu_avx512bf16_parts();
const CpuParts& cpu_neon_parts();

}  // namespace silt
