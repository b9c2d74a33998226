#include "core/check_view.hpp"

#include <algorithm>
#include <array>

namespace silt {
namespace {

size_t index(int axis) { return static_cast<size_t>(axis); }

std::string shape_text(std::initializer_list<int64_t> shape) {
  std::string text = "[";
  for (const int64_t n : shape) text += fmt::format("{}{}", text.size() == 1 ? "" : ", ", n);
  return text + "]";
}

std::string dtype_text(std::initializer_list<DType> dtypes) {
  std::string text;
  for (const DType dtype : dtypes) text += fmt::format("{}{}", text.empty() ? "" : " or ", to_string(dtype));
  return text;
}

std::string device_text(Device device) {
  constexpr std::string_view kNames[] = {"cpu", "cuda", "hip"};
  return fmt::format("{} {}", kNames[static_cast<size_t>(device.kind)], device.index);
}

/// First and one-past-last byte; {0, 0} where empty.
std::pair<uintptr_t, uintptr_t> extent(const ConstTensorView& view) {
  if (view.elements() == 0 || view.data == nullptr) return {0, 0};
  int64_t last = 0;
  for (int axis = 0; axis < view.rank; ++axis) last += (view.shape[index(axis)] - 1) * view.stride[index(axis)];
  const auto begin = reinterpret_cast<uintptr_t>(view.data);
  return {begin, begin + static_cast<uintptr_t>(last + 1) * size_of(view.dtype)};
}

/// Rows of a view: `payload` bytes at `start + i * step`. Only where the inner axes form one block.
struct Rows {
  bool known = false;
  uintptr_t start = 0;
  uintptr_t step = 0;
  uintptr_t payload = 0;
};

Rows rows_of(const ConstTensorView& view) {
  Rows rows;
  int64_t block = 1;
  for (int axis = view.rank - 1; axis >= 1; --axis) {
    if (view.shape[index(axis)] != 1 && view.stride[index(axis)] != block) return rows;
    block *= view.shape[index(axis)];
  }
  rows.known = true;
  rows.start = reinterpret_cast<uintptr_t>(view.data);
  rows.payload = static_cast<uintptr_t>(block) * size_of(view.dtype);
  rows.step = view.shape[0] < 2 ? 0 : static_cast<uintptr_t>(view.stride[0]) * size_of(view.dtype);
  return rows;
}

}  // namespace

std::string shape_text(const ConstTensorView& view) {
  std::string text = "[";
  for (int axis = 0; axis < view.rank; ++axis)
    text += fmt::format("{}{}", axis == 0 ? "" : ", ", view.shape[index(axis)]);
  return text + "]";
}

Status check_tensor(const NamedView& tensor, std::initializer_list<DType> dtypes,
                    std::initializer_list<int64_t> shape) {
  const ConstTensorView& view = tensor.view;
  if (!view.present()) return invalid("{}: {}: absent, needs {}", tensor.op, tensor.name, shape_text(shape));
  if (std::find(dtypes.begin(), dtypes.end(), view.dtype) == dtypes.end()) {
    return invalid("{}: {}: dtype: has {}, needs {}", tensor.op, tensor.name, to_string(view.dtype),
                   dtype_text(dtypes));
  }
  bool same = view.rank == static_cast<int32_t>(shape.size());
  if (same) same = std::equal(shape.begin(), shape.end(), view.shape.begin());
  if (!same)
    return invalid("{}: {}: shape: has {}, needs {}", tensor.op, tensor.name, shape_text(view), shape_text(shape));
  for (int axis = 0; axis < view.rank; ++axis) {
    if (view.stride[index(axis)] < 0) {
      return invalid("{}: {}: stride of axis {}: has {}, needs at least 0", tensor.op, tensor.name, axis,
                     view.stride[index(axis)]);
    }
  }
  if (view.elements() == 0) return {};
  if (view.data == nullptr)
    return invalid("{}: {}: has a null pointer, needs {} elements", tensor.op, tensor.name, view.elements());
  if (reinterpret_cast<uintptr_t>(view.data) % size_of(view.dtype) != 0) {
    return invalid("{}: {}: address: has {}, needs a multiple of {}", tensor.op, tensor.name, view.data,
                   size_of(view.dtype));
  }
  return {};
}

Status check_contiguous_from(const NamedView& tensor, int first) {
  int64_t step = 1;
  for (int axis = tensor.view.rank - 1; axis >= first; --axis) {
    const int64_t has = tensor.view.stride[index(axis)];
    if (tensor.view.shape[index(axis)] > 1 && has != step) {
      return invalid("{}: {}: stride of axis {}: has {}, needs {}", tensor.op, tensor.name, axis, has, step);
    }
    step *= tensor.view.shape[index(axis)];
  }
  return {};
}

Status check_stride_at_least(const NamedView& tensor, int axis, int64_t least) {
  const int64_t has = tensor.view.stride[index(axis)];
  if (tensor.view.shape[index(axis)] > 1 && has < least) {
    return invalid("{}: {}: stride of axis {}: has {}, needs at least {}", tensor.op, tensor.name, axis, has, least);
  }
  return {};
}

Status check_same_device(const NamedView& first, const NamedView& second) {
  if (!second.view.present() || first.view.device == second.view.device) return {};
  return invalid("{}: {}: device: has {}, needs {} (that of {})", first.op, second.name,
                 device_text(second.view.device), device_text(first.view.device), first.name);
}

bool may_overlap(const ConstTensorView& a, const ConstTensorView& b) {
  const auto [a_begin, a_end] = extent(a);
  const auto [b_begin, b_end] = extent(b);
  if (a_begin >= b_end || b_begin >= a_end) return false;
  Rows rows_a = rows_of(a);
  Rows rows_b = rows_of(b);
  if (!rows_a.known || !rows_b.known) return true;
  if (rows_a.step == 0) rows_a.step = rows_b.step;
  if (rows_b.step == 0) rows_b.step = rows_a.step;
  const uintptr_t step = rows_a.step;
  if (step == 0 || step != rows_b.step || rows_a.payload > step || rows_b.payload > step) return true;
  // Columns of one row grid: b starts `shift` behind a, modulo the row step.
  const uintptr_t shift = (rows_b.start % step + step - rows_a.start % step) % step;
  return shift < rows_a.payload || shift + rows_b.payload > step;
}

Status check_disjoint(const NamedView& written, const NamedView& other) {
  if (!written.view.present() || !other.view.present() || !may_overlap(written.view, other.view)) return {};
  return invalid("{}: {}: has memory of {}, needs memory of its own", written.op, written.name, other.name);
}

Status check_no_self_overlap(const NamedView& tensor) {
  // Axes by rising stride: each step must clear what the axes below it span.
  const ConstTensorView& view = tensor.view;
  if (view.elements() == 0) return {};  // a contiguous view of no tokens has strides of 0
  std::array<int, kMaxRank> order{};
  for (int axis = 0; axis < view.rank; ++axis) {  // insertion sort of at most four axes
    int place = axis;
    for (; place > 0 && view.stride[index(order[index(place - 1)])] > view.stride[index(axis)]; --place) {
      order[index(place)] = order[index(place - 1)];
    }
    order[index(place)] = axis;
  }
  int64_t span = 1;
  for (int i = 0; i < view.rank; ++i) {
    const int axis = order[index(i)];
    if (view.shape[index(axis)] < 2) continue;
    SILT_TRY(check_stride_at_least(tensor, axis, span));
    span += (view.shape[index(axis)] - 1) * view.stride[index(axis)];
  }
  return {};
}

Status check_epsilon(std::string_view op, std::string_view name, float value) {
  if (std::isfinite(value) && value >= 0) return {};
  return invalid("{}: {}: has {}, needs a finite number >= 0", op, name, value);
}

int64_t alignment_of(const ConstTensorView& view, int64_t most) {
  if (view.elements() == 0) return most;
  uint64_t bits = reinterpret_cast<uintptr_t>(view.data) | static_cast<uint64_t>(most);
  for (int axis = 0; axis + 1 < view.rank; ++axis) {
    if (view.shape[index(axis)] > 1) bits |= static_cast<uint64_t>(view.stride[index(axis)]) * size_of(view.dtype);
  }
  return static_cast<int64_t>(bits & (~bits + 1));
}

}  // namespace silt
