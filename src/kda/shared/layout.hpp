// Sizes, layouts and the padding rule of the KDA family. Plain C++ for every compiler, device compilers included.
#pragma once

#include <cstdint>

namespace silt::kda {

constexpr int64_t kDim = 128;    ///< head dimension, of keys and of values
constexpr int64_t kParts = 3;    ///< q, k, v
constexpr int64_t kTaps = 4;     ///< of the short convolution
constexpr int64_t kHistory = 3;  ///< raw inputs kept per channel
constexpr float kL2Epsilon = 1e-6F;

/// Order of the two inner axes of conv_state [slots, channels, 3].
enum class History : int32_t {
  sd,  ///< a step's channels are neighbours: strides (1, channels)
  ds,  ///< a channel's steps are neighbours: strides (3, 1)
};

enum class Gate : int32_t {
  safe,      ///< log decay = lower_bound * sigmoid(a * g)
  softplus,  ///< log decay = -a * softplus(g)
};

/// How long the sequences of a case are.
enum class Lengths : int32_t {
  even,    ///< all alike, from row 0 on
  ragged,  ///< random, some of them zero, with rows before the first and behind the last
};

/// null_slot is 0 (indices <= 0 are padding) or -1 (indices < 0 are). An index behind the pool is padding too.
constexpr bool is_padding(int64_t index, int64_t null_slot, int64_t slots) {
  return index <= null_slot || index >= slots;
}

}  // namespace silt::kda
