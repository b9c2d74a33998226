// Checks of one tensor argument, shared by the check functions of all operators. Texts: "<op>: <name>: has X, needs Y".
#pragma once

#include <cmath>
#include <initializer_list>
#include <string>
#include <string_view>

#include "silt/tensor.hpp"

#include "core/status.hpp"

namespace silt {

/// A view with its names, for the messages.
struct NamedView {
  std::string_view op;
  std::string_view name;
  ConstTensorView view;
};

std::string shape_text(const ConstTensorView& view);

/// Present, the dtype is one of `dtypes`, the shape is `shape`, every stride >= 0, and the pointer is there and aligned
/// to its element unless the tensor is empty.
Status check_tensor(const NamedView& tensor, std::initializer_list<DType> dtypes, std::initializer_list<int64_t> shape);
/// The strides of axes [first, rank) are those of a contiguous block.
Status check_contiguous_from(const NamedView& tensor, int first);
/// The stride of `axis` is at least `least` unless that axis has fewer than two entries.
Status check_stride_at_least(const NamedView& tensor, int axis, int64_t least);
Status check_same_device(const NamedView& first, const NamedView& second);
/// A written tensor shares no memory with another one. Row-interleaved slices of one buffer are told apart.
Status check_disjoint(const NamedView& written, const NamedView& other);
bool may_overlap(const ConstTensorView& a, const ConstTensorView& b);
/// The memory of one view is not reachable by two different indices.
Status check_no_self_overlap(const NamedView& tensor);
Status check_epsilon(std::string_view op, std::string_view name, float value);

/// The largest power of two, at most `most`, that divides the address and the byte steps of all axes but the last
/// (axes with fewer than two entries do not count).
int64_t alignment_of(const ConstTensorView& view, int64_t most);

}  // namespace silt
