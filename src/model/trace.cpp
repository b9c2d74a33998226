#include "model/trace.hpp"

#include <fmt/format.h>

namespace silt {
namespace {

float element(const ConstTensorView& view, int64_t offset) {
  switch (view.dtype) {
    case DType::bf16:
      return to_float(static_cast<const bf16*>(view.data)[offset]);
    case DType::f32:
      return static_cast<const float*>(view.data)[offset];
    case DType::i32:
      return static_cast<float>(static_cast<const int32_t*>(view.data)[offset]);
  }
  return 0;
}

}  // namespace

void Trace::begin_layer(int64_t index) {
  if (on()) prefix_ = fmt::format("layers.{}.", index);
}

void Trace::emit(std::string_view name, const ConstTensorView& view) const {
  if (!on()) return;
  const std::string full = prefix_ + std::string(name);
  std::vector<float> values(static_cast<size_t>(view.elements()));
  for (size_t i = 0; i < values.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    int64_t offset = 0;
    for (int axis = view.rank - 1; axis >= 0; --axis) {
      const auto a = static_cast<size_t>(axis);
      offset += rest % view.shape[a] * view.stride[a];
      rest /= view.shape[a];
    }
    values[i] = element(view, offset);
  }
  TraceTensor tensor{full, values.data(), {}};
  tensor.shape.assign(view.shape.begin(), view.shape.begin() + view.rank);
  sink_(tensor);
}

}  // namespace silt
