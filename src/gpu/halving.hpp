// Sums of several values at once by recursive halving.
#pragma once

#include "gpu/config.hpp"
#include "gpu/warp.hpp"

namespace silt::gpu {

/// kCount sums (a power of two) over groups of 2 * kBit lanes, kCount <= 2 * kBit: each step sends half of the values
/// and keeps half, so N values cost N - 1 + log2 shuffles. Lane l ends with sum l / (2 * kBit / kCount) of its group in
/// values[0]; lanes that hold the same sum have the same bits. The tree depends on the group alone, so a sum has the
/// same bits for every kCount.
template <int kCount, int kBit>
SILT_DEVICE void halve_sums(float* values, int lane) {
  if constexpr (kBit >= 1) {
    if constexpr (kCount > 1) {
      const bool upper = (lane & kBit) != 0;
#pragma unroll
      for (int i = 0; i < kCount / 2; ++i) {
        const float send = upper ? values[i] : values[i + kCount / 2];
        const float keep = upper ? values[i + kCount / 2] : values[i];
        values[i] = keep + __shfl_xor_sync(kAllLanes, send, kBit);
      }
      halve_sums<kCount / 2, kBit / 2>(values, lane);
    } else {
      values[0] += __shfl_xor_sync(kAllLanes, values[0], kBit);
      halve_sums<1, kBit / 2>(values, lane);
    }
  }
}

}  // namespace silt::gpu
