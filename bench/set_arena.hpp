// The memory of a subject's sets: one allocation, tensor by tensor, each with its sets one behind the other.
//
// One allocation because a graph of small launches rotates over hundreds of sets. Every set starts on a 1 KiB boundary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "silt/dtype.hpp"
#include "silt/status.hpp"
#include "silt/tensor.hpp"

#include "device/memory.hpp"

namespace silt::bench {

class SetArena {
 public:
  /// Declares a tensor of `bytes` per set and returns its number. `shared`: all sets use the same memory.
  int add(int64_t bytes, bool shared = false);
  /// From the next allocate on, all sets use the same memory of this tensor.
  void share(int tensor) { tensors_[static_cast<size_t>(tensor)].shared = true; }
  /// Of all tensors that are not shared.
  [[nodiscard]] int64_t set_bytes() const;

  Status allocate(Device device, int64_t sets);
  [[nodiscard]] int64_t sets() const { return sets_; }
  [[nodiscard]] Device device() const { return memory_.device(); }
  [[nodiscard]] std::byte* at(int tensor, int64_t set) const;

  /// All sets of a tensor: uniform random numbers in [low, high).
  Status fill(int tensor, DType dtype, float low, float high, uint64_t seed) const;
  Status upload(int tensor, int64_t set, int64_t at, const void* source, int64_t bytes) const;
  Status download(int tensor, int64_t set, int64_t at, void* target, int64_t bytes) const;

 private:
  struct Tensor {
    int64_t bytes = 0;
    bool shared = false;
    int64_t start = 0;
  };
  [[nodiscard]] int64_t offset(int tensor, int64_t set) const;
  [[nodiscard]] int64_t copies(const Tensor& tensor) const { return tensor.shared ? 1 : sets_; }

  std::vector<Tensor> tensors_;
  int64_t sets_ = 0;
  DeviceBuffer memory_;
};

}  // namespace silt::bench
