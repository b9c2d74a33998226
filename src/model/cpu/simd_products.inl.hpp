// What: tiles of matrix products (tiles.hpp) on one SIMD target.
//
// Plan: kRows rows times kPanels panels of sums stay in registers over all of K. A group is wider than that for the
// targets with 16 registers of 8 lanes: there one row takes the whole group at once, two rows half of it, more rows one
// panel after the other (a group of a decoder's K fits the caches, so that reading it by panels costs nothing).
//
// Data path: every load of 64 bytes of weights serves all rows of the tile; a pair of a row is broadcast from L1. One
// row is bound by the read of the weights, which lie in the order in which it reads them: no prefetch, the hardware's
// is as good (measured: 86 GB/s without, 75 with a prefetch 4 KiB ahead, 13 MiB in L3). Several rows leave time between
// two lines: the last tile of a group asks for the next group, which is worth 1.04 with four rows and 1.06 with eight.
//
// Rounding: fp32 with fused multiply-adds, in the order of tiles.hpp; bf16 values are exact in both forms.
#pragma once

#include "model/cpu/tiles.hpp"
#include "simd/lanes.inl.hpp"

SILT_SIMD_BEGIN;
namespace silt::SILT_SIMD_NAMESPACE::products {

static_assert(kPanelColumns == kLanes && kPairValues == kPairColumns);

#define SILT_EACH_ROW _Pragma("GCC unroll 8") for (int r = 0; r < kRows; ++r)
#define SILT_EACH_PANEL _Pragma("GCC unroll 4") for (int j = 0; j < kPanels; ++j)

/// sums += the two products of a pair, for 16 columns.
SILT_INLINE Lanes add_pair(Pair w, const float* x, Lanes sums) {
  return multiply_add(w.first, broadcast(x[0]), multiply_add(w.second, broadcast(x[1]), sums));
}

#if SILT_SIMD_TARGET == SILT_SIMD_AVX512BF16
SILT_INLINE Lanes add_pair(PackedBf16 w, const bf16* x, Lanes sums) {
  int32_t pair = 0;
  __builtin_memcpy(&pair, x, sizeof pair);
  const auto both = reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
  sums.part[0].raw = _mm512_dpbf16_ps(sums.part[0].raw, reinterpret_cast<__m512bh>(w.part[0].raw), both);
  return sums;
}
#endif

/// What a row's pair is multiplied with: weights as they lie for the BF16 instruction, else split.
template <class X, class W>
SILT_INLINE auto weights_for(const W* w) {
  if constexpr (sizeof(X) == 2) {
    return load_packed(w);
  } else {
    return unpack(load_packed(w));
  }
}

template <class X, class W, int kRows, int kPanels>
SILT_INLINE void run_panels(const ProductTile& t, const W* w, float* y) {
  Lanes sums[kRows][kPanels];
  const X* x[kRows];
  SILT_EACH_ROW {
    x[r] = reinterpret_cast<const X*>(t.x[r]);
    SILT_EACH_PANEL sums[r][j] = t.go_on ? load(y + r * t.y_stride + j * kLanes) : zero();
  }
  for (int64_t pair = 0; pair < t.pairs; ++pair, w += t.w_step) {
    if constexpr (kRows >= kPanels) {
      decltype(weights_for<X>(w)) panel[kPanels];
      SILT_EACH_PANEL panel[j] = weights_for<X>(w + j * kPairValues);
      SILT_EACH_PANEL prefetch_l2(reinterpret_cast<const std::byte*>(w + j * kPairValues) + t.ahead);
      SILT_EACH_ROW SILT_EACH_PANEL sums[r][j] = add_pair(panel[j], x[r] + 2 * pair, sums[r][j]);
    } else {
      SILT_EACH_PANEL {
        const auto panel = weights_for<X>(w + j * kPairValues);
        SILT_EACH_ROW sums[r][j] = add_pair(panel, x[r] + 2 * pair, sums[r][j]);
      }
    }
  }
  SILT_EACH_ROW SILT_EACH_PANEL store(y + r * t.y_stride + j * kLanes, sums[r][j]);
}

template <class X, class W, int kRows, int kPanels>
void run_tile(const ProductTile& t) {
  // Panels whose sums stay in registers: 32 of them where Lanes is one, 32 with four a Lanes (NEON), or 16 with two.
  constexpr int kAtOnce = kParts == 1 || kPanels == 1 || kRows == 1 ? kPanels : kRows == 2 ? kPanels / 2 : 1;
  const W* w = reinterpret_cast<const W*>(t.w);
  for (int first = 0; first < kPanels; first += kAtOnce) {
    run_panels<X, W, kRows, kAtOnce>(t, w + first * kPairValues, t.y + first * kLanes);
  }
}

template <class X, class W, int kMostRows, int kRows = 1>
void fill(TileKernels* kernels) {
  kernels->panel[kRows - 1] = run_tile<X, W, kRows, 1>;
  kernels->group[kRows - 1] = run_tile<X, W, kRows, kGroupPanels>;
  if constexpr (kRows < kMostRows) fill<X, W, kMostRows, kRows + 1>(kernels);
}

template <class X, class W, int kMostRows>
TileKernels kernels() {
  TileKernels made;
  made.x = sizeof(X) == 2 ? DType::bf16 : DType::f32;
  made.most_rows = kMostRows;
  fill<X, W, kMostRows>(&made);
  return made;
}

#undef SILT_EACH_ROW
#undef SILT_EACH_PANEL

}  // namespace silt::SILT_SIMD_NAMESPACE::products
SILT_SIMD_END;
