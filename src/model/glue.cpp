#include "model/glue.hpp"

#include <cmath>

#include "core/workers.hpp"
#include "model/fast_math.hpp"

namespace silt {
namespace {

// Partial sums of a row: enough for the widest vectors, and the same on every instruction set, so that the order of a
// sum is part of the source and not of the compiler's choice.
constexpr int64_t kLanes = 16;

template <class T>
const T* row_of(const ConstTensorView& view, int64_t row) {
  return static_cast<const T*>(view.data) + row * view.stride[0];
}
template <class T>
T* row_of(const TensorView& view, int64_t row) {
  return static_cast<T*>(view.data) + row * view.stride[0];
}

template <class T>
SILT_LOOP T narrow(float value) {
  if constexpr (std::is_same_v<T, bf16>) {
    return to_bf16(value);
  } else {
    return value;
  }
}

/// Calls body with a value of the element type of each view: body(X{}, Y{}).
template <class Body>
void with_types(DType x, DType y, const Body& body) {
  if (x == DType::bf16) {
    y == DType::bf16 ? body(bf16{}, bf16{}) : body(bf16{}, float{});
  } else {
    y == DType::bf16 ? body(float{}, bf16{}) : body(float{}, float{});
  }
}

template <class T>
SILT_LOOP float sum_of_squares(const T* x, int64_t n) {
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const float v = to_float(x[i + lane]);
      lanes[lane] += v * v;
    }
  }
  for (int64_t lane = 0; i < n; ++i, ++lane) {
    const float v = to_float(x[i]);
    lanes[lane] += v * v;
  }
  for (int64_t width = kLanes / 2; width > 0; width /= 2) {
    for (int64_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

template <class X, class Y>
SILT_LOOP void rms_norm_row(const X* x, const float* weight, float eps, Y* y, int64_t n) {
  const float scale = 1.0F / std::sqrt(sum_of_squares(x, n) / static_cast<float>(n) + eps);
  for (int64_t i = 0; i < n; ++i) y[i] = narrow<Y>(to_float(x[i]) * scale * weight[i]);
}

template <class Y>
SILT_LOOP void situ_row(const float* gate, const float* up, float beta, float linear_beta, Y* y, int64_t n) {
  const float inverse = 1.0F / beta;
  const float linear_inverse = 1.0F / linear_beta;
  for (int64_t i = 0; i < n; ++i) {
    const float g = beta * fast_tanh(gate[i] * inverse) * fast_sigmoid(gate[i]);
    y[i] = narrow<Y>(g * (linear_beta * fast_tanh(up[i] * linear_inverse)));
  }
}

template <class Y>
SILT_LOOP void swiglu_row(const float* gate, const float* up, Y* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = narrow<Y>(gate[i] * fast_sigmoid(gate[i]) * up[i]);
}

template <class G, class X>
SILT_LOOP void sigmoid_gate_row(const G* gate, X* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = narrow<X>(to_float(x[i]) * fast_sigmoid(to_float(gate[i])));
}

template <class X, class Y>
SILT_LOOP void scaled_row(const X* x, float scale, Y* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = narrow<Y>(to_float(x[i]) * scale);
}

template <class Y>
SILT_LOOP void sum_row(const float* a, const float* b, Y* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = narrow<Y>(a[i] + b[i]);
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
  const int64_t rows = x.shape[0];
  const int64_t n = x.shape[1];
  with_types(x.dtype, y.dtype, [&](auto x_type, auto y_type) {
    using X = decltype(x_type);
    using Y = decltype(y_type);
    parallel_ranges(rows, threads_for(rows * n, threads), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        on_cpu<rms_norm_row<X, Y>>(row_of<X>(x, r), weight.data(), eps, row_of<Y>(y, r), n);
      }
    });
  });
}

void gated_activation(const ConstTensorView& x, const FeedForwardConfig& config, const TensorView& y, int threads) {
  const int64_t rows = y.shape[0];
  const int64_t n = y.shape[1];
  with_types(DType::f32, y.dtype, [&](auto, auto y_type) {
    using Y = decltype(y_type);
    parallel_ranges(rows, threads_for(4 * rows * n, threads), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const float* gate = row_of<float>(x, r);
        if (config.activation == Activation::situ) {
          on_cpu<situ_row<Y>>(gate, gate + n, config.situ_beta, config.situ_linear_beta, row_of<Y>(y, r), n);
        } else {
          on_cpu<swiglu_row<Y>>(gate, gate + n, row_of<Y>(y, r), n);
        }
      }
    });
  });
}

void sigmoid_gate(const TensorView& x, const ConstTensorView& gate, int threads) {
  const int64_t rows = x.shape[0];
  const int64_t n = x.shape[1];
  with_types(gate.dtype, x.dtype, [&](auto gate_type, auto x_type) {
    using G = decltype(gate_type);
    using X = decltype(x_type);
    parallel_ranges(rows, threads_for(2 * rows * n, threads), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        on_cpu<sigmoid_gate_row<G, X>>(row_of<G>(gate, r), row_of<X>(x, r), n);
      }
    });
  });
}

void copy_scaled(const ConstTensorView& x, float scale, const TensorView& y, int threads) {
  const int64_t rows = x.shape[0];
  const int64_t n = x.shape[1];
  with_types(x.dtype, y.dtype, [&](auto x_type, auto y_type) {
    using X = decltype(x_type);
    using Y = decltype(y_type);
    parallel_ranges(rows, threads_for(rows * n, threads), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        on_cpu<scaled_row<X, Y>>(row_of<X>(x, r), scale, row_of<Y>(y, r), n);
      }
    });
  });
}

void add_rows(const ConstTensorView& a, const ConstTensorView& b, const TensorView& y, int threads) {
  const int64_t rows = y.shape[0];
  const int64_t n = y.shape[1];
  with_types(DType::f32, y.dtype, [&](auto, auto y_type) {
    using Y = decltype(y_type);
    parallel_ranges(rows, threads_for(rows * n, threads), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        on_cpu<sum_row<Y>>(row_of<float>(a, r), row_of<float>(b, r), row_of<Y>(y, r), n);
      }
    });
  });
}

}  // namespace silt
