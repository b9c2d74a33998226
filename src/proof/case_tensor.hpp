// A tensor of a case: host values behind guards, any strides and misalignment, mirrored to the device it runs on.
//
// The allocation is filled with a poison that is NaN in every element type; only elements of the view are ever set.
// After a run, `outside_untouched` shows that nothing between, before or behind the rows was written.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "silt/tensor.hpp"

#include "device/memory.hpp"
#include "proof/compare.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define SILT_SANITIZES_ADDRESSES
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SILT_SANITIZES_ADDRESSES
#endif
#endif

namespace silt {

class CaseTensor {
 public:
  CaseTensor() = default;
  /// Strides in elements; empty: contiguous. `misalign` shifts the first element by that many elements off a 64-byte
  /// boundary.
  CaseTensor(DType dtype, std::vector<int64_t> shape, std::vector<int64_t> stride = {}, int64_t misalign = 0);

  [[nodiscard]] bool present() const { return !shape_.empty(); }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] int64_t elements() const { return elements_; }
  [[nodiscard]] const std::vector<int64_t>& shape() const { return shape_; }
  [[nodiscard]] const std::vector<int64_t>& stride() const { return stride_; }
  /// Bytes of the allocation before logical element 0.
  [[nodiscard]] size_t origin() const { return origin_bytes_; }

  /// Element by logical index (row-major over the shape). Values are rounded to the dtype when set.
  [[nodiscard]] float get(int64_t index) const;
  void set(int64_t index, float value);
  [[nodiscard]] int32_t get_int(int64_t index) const;
  void set_int(int64_t index, int32_t value);
  /// fill(i) for every logical index.
  void fill(FunctionRef<float(int64_t)> value);
  /// Back to poison: an output that must be written.
  void poison();

  /// Host bytes of the whole allocation, for copies and bitwise comparison.
  [[nodiscard]] const std::vector<std::byte>& bytes() const { return host_; }
  /// Host bytes of the whole allocation, as a run somewhere else left them; of the same size.
  void set_bytes(const std::vector<std::byte>& bytes) { std::copy(bytes.begin(), bytes.end(), host_.begin()); }
  /// Where the allocation stands on the device; valid after `to_device`.
  [[nodiscard]] const std::byte* device_bytes() const;
  /// A host pointer to logical element 0 as the view sees it.
  template <class T>
  [[nodiscard]] T* host() {
    return reinterpret_cast<T*>(host_.data() + origin_bytes_);
  }
  [[nodiscard]] TensorView host_view();

  /// Copies to the device; `view` is valid from then on.
  Status to_device(Device device);
  /// Brings back what the device wrote.
  Status from_device();
  [[nodiscard]] TensorView view() const;

  /// Everything but the elements of the view equals `before` (the bytes at upload).
  [[nodiscard]] Verdict outside_untouched(std::string_view name, const std::vector<std::byte>& before) const;
  /// The elements with index in [begin, end) equal those of `before`, bit for bit.
  [[nodiscard]] Verdict range_untouched(std::string_view name, const CaseTensor& before, int64_t begin,
                                        int64_t end) const;

 private:
  struct Mirror;

  [[nodiscard]] size_t offset_bytes(int64_t index) const;
  [[nodiscard]] TensorView view_at(std::byte* origin, Device device) const;

  DType dtype_ = DType::f32;
  std::vector<int64_t> shape_;
  std::vector<int64_t> stride_;
  int64_t elements_ = 0;
  size_t origin_bytes_ = 0;
  std::vector<std::byte> host_;
  // A shared handle, so that a case can be copied before a run; a copy shares the device memory it was made with.
  std::shared_ptr<Mirror> mirror_;
};

}  // namespace silt
