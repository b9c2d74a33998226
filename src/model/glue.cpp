#include "model/glue.hpp"

#include "core/workers.hpp"
#include "model/cpu/cpu_parts.hpp"

namespace silt {
namespace {

const void* row_of(const ConstTensorView& view, int64_t row) {
  return static_cast<const std::byte*>(view.data) + static_cast<size_t>(row * view.stride[0]) * size_of(view.dtype);
}
void* row_of(const TensorView& view, int64_t row) {
  return static_cast<std::byte*>(view.data) + static_cast<size_t>(row * view.stride[0]) * size_of(view.dtype);
}
const float* floats_of(const ConstTensorView& view, int64_t row) {
  return static_cast<const float*>(row_of(view, row));
}

/// body(row) for every row; `cost` is that of an element, where a copy is one.
template <class Body>
void each_row(const TensorView& rows, int64_t cost, int threads, const Body& body) {
  parallel_ranges(rows.shape[0], threads_for(cost * rows.shape[0] * rows.shape[1], threads),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t r = begin; r < end; ++r) body(r);
                  });
}

}  // namespace

int threads_for(int64_t elements, int threads) { return elements < 16384 ? 1 : threads; }

TensorView columns_of(const TensorView& rows, int64_t first, int64_t cols) {
  TensorView part = rows;
  part.data = static_cast<std::byte*>(rows.data) + static_cast<size_t>(first) * size_of(rows.dtype);
  part.shape[1] = cols;
  return part;
}

namespace {
template <class V>
V heads_view(V view, int64_t heads) {
  const int64_t width = view.shape[1] / heads;
  view.rank = 3;
  view.shape = {view.shape[0], heads, width};
  view.stride = {view.stride[0], width, 1};
  return view;
}
}  // namespace

ConstTensorView as_heads(const ConstTensorView& rows, int64_t heads) { return heads_view(rows, heads); }
TensorView as_heads(const TensorView& rows, int64_t heads) { return heads_view(rows, heads); }

void rms_norm(const ConstTensorView& x, std::span<const float> weight, float eps, const TensorView& y, int threads) {
  const auto norm = cpu_parts().rows.rms_norm[type_index(x.dtype)][type_index(y.dtype)];
  each_row(y, 1, threads, [&](int64_t r) { norm(row_of(x, r), weight.data(), eps, row_of(y, r), y.shape[1]); });
}

void gated_activation(const ConstTensorView& x, const FeedForwardConfig& config, const TensorView& y, int threads) {
  const RowKernels& kernels = cpu_parts().rows;
  const auto situ = kernels.situ[type_index(y.dtype)];
  const auto swiglu = kernels.swiglu[type_index(y.dtype)];
  const int64_t n = y.shape[1];
  each_row(y, 4, threads, [&](int64_t r) {
    const float* gate = floats_of(x, r);
    if (config.activation == Activation::situ) {
      situ(gate, gate + n, config.situ_beta, config.situ_linear_beta, row_of(y, r), n);
    } else {
      swiglu(gate, gate + n, row_of(y, r), n);
    }
  });
}

void sigmoid_gate(const TensorView& x, const ConstTensorView& gate, int threads) {
  const auto apply = cpu_parts().rows.sigmoid_gate[type_index(x.dtype)];
  each_row(x, 2, threads, [&](int64_t r) { apply(row_of(gate, r), row_of(x, r), x.shape[1]); });
}

void convert_rows(const ConstTensorView& x, const TensorView& y, int threads) {
  const auto convert = cpu_parts().rows.convert[type_index(x.dtype)][type_index(y.dtype)];
  each_row(y, 1, threads, [&](int64_t r) { convert(row_of(x, r), row_of(y, r), y.shape[1]); });
}

void add_rows(const ConstTensorView& a, const ConstTensorView& b, const TensorView& y, int threads) {
  const auto add = cpu_parts().rows.sum[type_index(y.dtype)];
  each_row(y, 1, threads, [&](int64_t r) { add(floats_of(a, r), floats_of(b, r), row_of(y, r), y.shape[1]); });
}

}  // namespace silt
