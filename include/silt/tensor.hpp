// Views of memory that the caller owns: pointer, element type, shape and strides (in elements).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "silt/dtype.hpp"

namespace silt {

enum class DeviceKind : int32_t { cpu = 0, cuda = 1, hip = 2 };

/// Where memory lives and where a kernel runs. `index` is the ordinal of a GPU, 0 for the CPU.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int32_t index = 0;
  friend constexpr bool operator==(Device, Device) = default;
};

constexpr int kMaxRank = 4;

namespace detail {
/// `Pointer` is `void*` or `const void*`. A default-constructed view is an absent optional tensor.
template <class Pointer>
struct View {
  Pointer data = nullptr;
  DType dtype = DType::f32;
  int32_t rank = 0;
  std::array<int64_t, kMaxRank> shape{};
  std::array<int64_t, kMaxRank> stride{};
  Device device{};

  [[nodiscard]] constexpr bool present() const { return rank != 0; }
  [[nodiscard]] constexpr int64_t elements() const {
    int64_t n = rank == 0 ? 0 : 1;
    for (int i = 0; i < rank; ++i) n *= shape[static_cast<size_t>(i)];
    return n;
  }
};
}  // namespace detail

/// Memory that is written (and perhaps read).
using TensorView = detail::View<void*>;

/// Memory that is only read; made from a TensorView implicitly.
struct ConstTensorView : detail::View<const void*> {
  ConstTensorView() = default;
  ConstTensorView(const TensorView& view) {  // NOLINT(google-explicit-constructor): reading a writable view is safe
    data = view.data;
    dtype = view.dtype;
    rank = view.rank;
    shape = view.shape;
    stride = view.stride;
    device = view.device;
  }
};

namespace detail {
template <class V, class T>
V make_view(T* data, DType dtype, std::initializer_list<int64_t> shape, std::initializer_list<int64_t> stride,
            Device device) {
  V view;
  view.data = data;
  view.dtype = dtype;
  view.device = device;
  view.rank = static_cast<int32_t>(shape.size());
  size_t axis = 0;
  for (const int64_t n : shape) view.shape[axis++] = n;
  if (stride.size() == 0) {
    int64_t step = 1;
    while (axis-- > 0) {
      view.stride[axis] = step;
      step *= view.shape[axis];
    }
  } else {
    axis = 0;
    for (const int64_t s : stride) view.stride[axis++] = s;
  }
  return view;
}
}  // namespace detail

/// A view of at most four axes; contiguous (last axis fastest) where `stride` is left out.
template <class T>
TensorView view(T* data, std::initializer_list<int64_t> shape, std::initializer_list<int64_t> stride = {},
                Device device = {}) {
  return detail::make_view<TensorView>(data, dtype_of<T>(), shape, stride, device);
}
template <class T>
ConstTensorView view(const T* data, std::initializer_list<int64_t> shape, std::initializer_list<int64_t> stride = {},
                     Device device = {}) {
  return detail::make_view<ConstTensorView>(data, dtype_of<T>(), shape, stride, device);
}

}  // namespace silt
