#include "model/mxfp4.hpp"

#include <cmath>

namespace silt {
namespace {

template <class T>
T exact(float value) {
  if constexpr (std::is_same_v<T, bf16>) {
    return to_bf16(value);
  } else {
    return value;
  }
}

template <class T>
void expand(std::span<const uint8_t> packed, std::span<const uint8_t> scales, T* row) {
  constexpr size_t kBytesPerGroup = kMxfp4Group / 2;
  for (size_t group = 0; group < scales.size(); ++group) {
    const float scale = std::ldexp(1.0F, static_cast<int>(scales[group]) - 127);
    for (size_t i = group * kBytesPerGroup; i < (group + 1) * kBytesPerGroup; ++i) {
      row[2 * i] = exact<T>(scale * mxfp4_value(packed[i] & 15U));
      row[2 * i + 1] = exact<T>(scale * mxfp4_value(packed[i] >> 4U));
    }
  }
}

}  // namespace

void expand_mxfp4_row(std::span<const uint8_t> packed, std::span<const uint8_t> scales, bf16* row) {
  expand(packed, scales, row);
}
void expand_mxfp4_row(std::span<const uint8_t> packed, std::span<const uint8_t> scales, float* row) {
  expand(packed, scales, row);
}

}  // namespace silt
