// The random numbers of cases: small, fast, the same on every machine.
#pragma once

#include <cmath>
#include <cstdint>

namespace silt {

/// splitmix64.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t bits() {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// In [0, 1).
  double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  /// Uniform in [low, high).
  float uniform(float low, float high) { return low + (high - low) * static_cast<float>(unit()); }
  /// In [0, limit).
  int64_t below(int64_t limit) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(limit)); }

 private:
  uint64_t state_;
};

}  // namespace silt
