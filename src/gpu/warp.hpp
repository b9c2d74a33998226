// Sums and maxima over the lanes of a warp. The order of additions is fixed: the same values give the same bits.
#pragma once

#include "gpu/config.hpp"

namespace silt::gpu {

constexpr int kWarpLanes = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

SILT_DEVICE int lane_index() { return static_cast<int>(threadIdx.x % kWarpLanes); }
SILT_DEVICE int warp_index() { return static_cast<int>(threadIdx.x / kWarpLanes); }

/// Butterfly over groups of kGroup lanes (a power of two); every lane gets the result of its group.
template <int kGroup = kWarpLanes>
SILT_DEVICE float lane_sum(float value) {
#pragma unroll
  for (int offset = kGroup / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(kAllLanes, value, offset);
  return value;
}
template <int kGroup = kWarpLanes>
SILT_DEVICE float lane_max(float value) {
#pragma unroll
  for (int offset = kGroup / 2; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, offset));
  }
  return value;
}

/// First step of a reduce-scatter of two values over groups of 2 * kBit lanes: the lower half of a group goes on with
/// `first`, the upper with `second`. Each half still has to be added over its kBit lanes.
template <int kBit = kWarpLanes / 2>
SILT_DEVICE float fold_pair(float first, float second, int lane) {
  const bool upper = (lane & kBit) != 0;
  const float send = upper ? first : second;
  const float keep = upper ? second : first;
  return keep + __shfl_xor_sync(kAllLanes, send, kBit);
}

/// Reduce-scatter of kCount values per lane over the lanes whose index differs in bits kBit, kBit/2, .. 1: kCount +
/// log2 shuffles instead of kCount * log2. A lane ends with the values `Scattered` names, in values[0..].
template <int kCount, int kBit>
SILT_DEVICE void reduce_scatter(float* values, int lane) {
  constexpr int kHalf = (kCount + 1) / 2;
  const bool upper = (lane & kBit) != 0;
#pragma unroll
  for (int i = 0; i < kHalf; ++i) {
    const float first = values[i];
    const float second = i + kHalf < kCount ? values[i + kHalf] : 0.0F;
    const float send = upper ? first : second;
    const float keep = upper ? second : first;
    values[i] = keep + __shfl_xor_sync(kAllLanes, send, kBit);
  }
  if constexpr (kBit > 1) reduce_scatter<kHalf, kBit / 2>(values, lane);
}

/// Which of kCount values a lane holds after a reduce-scatter over groups of 2 * kBit lanes: `count` values from
/// `first` on (count may be 0 or negative: none).
struct Scattered {
  int first = 0;
  int count = 0;
};
template <int kCount, int kBit = kWarpLanes / 2>
SILT_DEVICE Scattered scattered(int lane) {
  Scattered held{0, kCount};
  int size = kCount;
#pragma unroll
  for (int bit = kBit; bit > 0; bit /= 2) {
    const int half = (size + 1) / 2;
    if ((lane & bit) != 0) {
      held.first += half;
      held.count -= half;
    } else {
      held.count = min(held.count, half);
    }
    size = half;
  }
  return held;
}

}  // namespace silt::gpu
