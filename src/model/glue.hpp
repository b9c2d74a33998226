// The decoder's arithmetic between products and operators, row by row: norms, activations, gates. All of it is fp32
// with one rounding where the result is bf16. Views are [rows, columns], bf16 or fp32, inner stride 1, row strides
// free.
#pragma once

#include <span>

#include "silt/tensor.hpp"

#include "model/config.hpp"

namespace silt {

/// A view of `cols` columns starting at `first` of dense rows with `width` columns.
TensorView columns_of(const TensorView& rows, int64_t first, int64_t cols);
/// [rows, cols] as [rows, heads, cols / heads].
ConstTensorView as_heads(const ConstTensorView& rows, int64_t heads);
TensorView as_heads(const TensorView& rows, int64_t heads);

/// y = x * rsqrt(mean(x^2) + eps) * weight.
void rms_norm(const ConstTensorView& x, std::span<const float> weight, float eps, const TensorView& y, int threads);
/// y = activation(gate) * up with x = [gate | up]: SiTU b*tanh(g/b)*sigmoid(g) * l*tanh(u/l), or SwiGLU g*sigmoid(g) *
/// u.
void gated_activation(const ConstTensorView& x, const FeedForwardConfig& config, const TensorView& y, int threads);
/// x *= sigmoid(gate); gate of the type of x.
void sigmoid_gate(const TensorView& x, const ConstTensorView& gate, int threads);
/// y = x, in the type of y.
void convert_rows(const ConstTensorView& x, const TensorView& y, int threads);
/// y = a + b; a and b are fp32.
void add_rows(const ConstTensorView& a, const ConstTensorView& b, const TensorView& y, int threads);

/// How many threads are worth it for so many elements: waking another one pays from some ten thousand on.
int threads_for(int64_t elements, int threads);

}  // namespace silt
