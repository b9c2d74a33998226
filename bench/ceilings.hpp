// The ceilings of a CPU: what the same threads reach on as many bytes as the operator moves.
#pragma once

#include <cstdint>
#include <string_view>

#include "silt/status.hpp"

#include "core/buffer.hpp"

namespace silt::bench {

/// Pins the library's workers, the caller included, to the cores that the process may use, one each in order.
/// invalid_argument where there are fewer cores than threads.
Status pin_workers(int threads);

/// Memory that the ceilings rotate over: `regions` regions of `bytes`, read and written in halves.
class CeilingMemory {
 public:
  CeilingMemory(int64_t bytes, int64_t regions);

  /// One launch of a ceiling by its row name, on region i (modulo): bytes / 2 copied or updated, or bytes read.
  void run(std::string_view ceiling, int64_t i, int threads);
  [[nodiscard]] int64_t regions() const { return regions_; }
  /// What one launch moves: `bytes` rounded up to whole blocks.
  [[nodiscard]] int64_t bytes() const { return 2 * half_; }

 private:
  int64_t half_ = 0;
  int64_t regions_ = 0;
  Buffer memory_;
};

/// Floating-point operations per second of `threads` threads, in units of 1e9; one sample of about `sample_us`.
double multiply_add_rate(int threads, double sample_us);

}  // namespace silt::bench
