// The inner piece of a matrix product, and how weights lie in memory for it.
//
// W[N, K] is packed as panels of 16 rows of W, the columns of the result, and up to four panels together make a group:
// pair after pair of K, and for every pair the panels of the group one after the other, so that the product of a single
// row reads a group as one line of memory. Within a panel a pair is 32 values: bf16 has the two values of a column side
// by side, which is what the BF16 dot product takes and what a shift and a mask split; fp32 has 16 columns of the first
// and 16 of the second. N is padded with zeros to whole panels, K to whole pairs.
//
// An element of the result is one chain over the pairs: the second product of a pair first, then the first one, as the
// BF16 instruction does it. Rows, panels of a tile and cuts of K (a later tile goes on from the stored fp32 sum) leave
// that chain as it is, so that an element has the same bits in every tile.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "silt/dtype.hpp"

namespace silt {

constexpr int64_t kPanelColumns = 16;
constexpr int64_t kPairValues = 2 * kPanelColumns;  ///< of a panel
constexpr int64_t kGroupPanels = 4;
constexpr int64_t kGroupColumns = kGroupPanels * kPanelColumns;
constexpr int kMostTileRows = 8;

struct ProductTile {
  const std::byte* const* x = nullptr;  ///< the tile's rows from this cut of K on, in the type of the kernels
  const std::byte* w = nullptr;         ///< first pair of the first panel
  int64_t w_step = 0;                   ///< values from pair to pair: kPairValues times the panels of the group
  int64_t pairs = 0;
  float* y = nullptr;  ///< 16 columns per panel
  int64_t y_stride = 0;
  bool go_on = false;  ///< from the sums in y
  int64_t ahead = 0;   ///< bytes from these weights to those to ask for meanwhile
};
using RunTile = void (*)(const ProductTile& tile);

/// Tiles of 1..most_rows rows, for one panel and for a whole group.
struct TileKernels {
  DType x = DType::f32;
  int most_rows = 0;
  std::array<RunTile, kMostTileRows> panel{};
  std::array<RunTile, kMostTileRows> group{};
};

}  // namespace silt
