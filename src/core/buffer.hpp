// Aligned host memory: 64-byte aligned, and 2 MiB pages asked for where the block is large (pools, weights).
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace silt {

namespace detail {
struct Unmap {
  size_t bytes = 0;
  void operator()(std::byte* data) const;
};
}  // namespace detail

/// Owns `bytes` of zeroed memory. Throws NoMemory where there is none.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t bytes);

  [[nodiscard]] std::byte* data() { return data_.get(); }
  [[nodiscard]] const std::byte* data() const { return data_.get(); }
  [[nodiscard]] size_t bytes() const { return bytes_; }

  template <class T>
  [[nodiscard]] T* as() {
    return reinterpret_cast<T*>(data_.get());
  }
  template <class T>
  [[nodiscard]] const T* as() const {
    return reinterpret_cast<const T*>(data_.get());
  }

 private:
  std::unique_ptr<std::byte, detail::Unmap> data_;
  size_t bytes_ = 0;
};

}  // namespace silt
