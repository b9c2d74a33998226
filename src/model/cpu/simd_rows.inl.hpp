// What: norms, activations and gates of rows (rows.hpp) on one SIMD target.
//
// Plan: 32 columns at a time; what is left at the end of a row goes through a buffer of 32, so that the arithmetic is
// written once and reads nothing behind a row.
//
// Rounding: fp32, one rounding where the result is bf16; sums by a fixed tree.
#pragma once

#include <algorithm>
#include <cmath>

#include "model/cpu/rows.hpp"
#include "simd/math.inl.hpp"

SILT_SIMD_BEGIN;
namespace silt::SILT_SIMD_NAMESPACE::rows {

/// tanh(x). Near zero 1 - 2 / (e^2x + 1) cancels; the odd series to x^11 is exact to fp32 below 0.3.
SILT_INLINE Lanes tanh(Lanes x) {
  const Lanes square = multiply(x, x);
  Lanes series = broadcast(-8.86323552e-3F);
  series = multiply_add(series, square, broadcast(2.18694885e-2F));
  series = multiply_add(series, square, broadcast(-5.39682540e-2F));
  series = multiply_add(series, square, broadcast(1.33333333e-1F));
  series = multiply_add(series, square, broadcast(-3.33333333e-1F));
  const Lanes near = multiply_add(multiply(x, square), series, x);
  const Lanes one = broadcast(1.0F);
  const Lanes far = subtract(one, divide(broadcast(2.0F), add(exp(add(x, x)), one)));
  Lanes r;
  SILT_EACH_PART {
    const auto small = hn::Lt(square.part[i], hn::Set(FloatTag(), 0.09F));
    r.part[i] = hn::IfThenElse(small, near.part[i], far.part[i]);
  }
  return r;
}

// ---- one step of 16 columns each
struct SituStep {
  float beta, inverse, linear_beta, linear_inverse;
  SILT_INLINE Lanes operator()(Lanes gate, Lanes up, const float*) const {
    const Lanes g = multiply(multiply(broadcast(beta), tanh(multiply(gate, broadcast(inverse)))), sigmoid(gate));
    return multiply(g, multiply(broadcast(linear_beta), tanh(multiply(up, broadcast(linear_inverse)))));
  }
};
struct SwigluStep {
  SILT_INLINE Lanes operator()(Lanes gate, Lanes up, const float*) const { return multiply(silu(gate), up); }
};
struct GateStep {
  SILT_INLINE Lanes operator()(Lanes gate, Lanes x, const float*) const { return multiply(x, sigmoid(gate)); }
};
struct CopyStep {
  SILT_INLINE Lanes operator()(Lanes x, Lanes, const float*) const { return x; }
};
struct SumStep {
  SILT_INLINE Lanes operator()(Lanes a, Lanes b, const float*) const { return add(a, b); }
};
struct SigmoidStep {
  SILT_INLINE Lanes operator()(Lanes x, Lanes, const float*) const { return sigmoid(x); }
};
struct AddScaledStep {
  float weight;
  SILT_INLINE Lanes operator()(Lanes part, Lanes sum, const float*) const {
    return multiply_add(part, broadcast(weight), sum);
  }
};
struct NormStep {
  float scale;
  SILT_INLINE Lanes operator()(Lanes x, Lanes, const float* weight) const {
    return multiply(multiply(x, broadcast(scale)), load(weight));
  }
};

/// 32 columns: y = step(a, b, c).
template <class Step, class A, class B, class Y>
SILT_INLINE void step_32(const Step& step, const A* a, const B* b, const float* c, Y* y) {
  const Lanes low = step(load(a), load(b), c);
  const Lanes high = step(load(a + kLanes), load(b + kLanes), c + kLanes);
  store_pair(y, pair_of_columns<Y>(low, high));
}

/// c may be a's own row where the step does not read it.
template <class Step, class A, class B, class Y>
SILT_INLINE void map_row(const Step& step, const A* a, const B* b, const float* c, Y* y, int64_t n) {
  int64_t i = 0;
  for (; i + kPairColumns <= n; i += kPairColumns) step_32(step, a + i, b + i, c == nullptr ? c : c + i, y + i);
  if (i == n) return;
  A last_a[kPairColumns] = {};
  B last_b[kPairColumns] = {};
  float last_c[kPairColumns] = {};
  Y last_y[kPairColumns];
  std::copy(a + i, a + n, last_a);
  std::copy(b + i, b + n, last_b);
  if (c != nullptr) std::copy(c + i, c + n, last_c);
  step_32(step, last_a, last_b, last_c, last_y);
  std::copy_n(last_y, n - i, y + i);
}

template <class X>
SILT_INLINE float sum_of_squares(const X* x, int64_t n) {
  Lanes low = zero();
  Lanes high = zero();
  int64_t i = 0;
  for (; i + kPairColumns <= n; i += kPairColumns) {
    const Lanes a = load(x + i);
    const Lanes b = load(x + i + kLanes);
    low = multiply_add(a, a, low);
    high = multiply_add(b, b, high);
  }
  if (i < n) {
    X last[kPairColumns] = {};
    std::copy(x + i, x + n, last);
    const Lanes a = load(last);
    const Lanes b = load(last + kLanes);
    low = multiply_add(a, a, low);
    high = multiply_add(b, b, high);
  }
  return sum(add(low, high));
}

template <class X, class Y>
void rms_norm(const void* x, const float* weight, float eps, void* y, int64_t n) {
  const auto* from = static_cast<const X*>(x);
  const float scale = 1.0F / std::sqrt(sum_of_squares(from, n) / static_cast<float>(n) + eps);
  map_row(NormStep{scale}, from, from, weight, static_cast<Y*>(y), n);
}

template <class Y>
void situ(const float* gate, const float* up, float beta, float linear_beta, void* y, int64_t n) {
  map_row(SituStep{beta, 1.0F / beta, linear_beta, 1.0F / linear_beta}, gate, up, nullptr, static_cast<Y*>(y), n);
}
template <class Y>
void swiglu(const float* gate, const float* up, void* y, int64_t n) {
  map_row(SwigluStep{}, gate, up, nullptr, static_cast<Y*>(y), n);
}
template <class X>
void sigmoid_gate(const void* gate, void* x, int64_t n) {
  map_row(GateStep{}, static_cast<const X*>(gate), static_cast<const X*>(x), nullptr, static_cast<X*>(x), n);
}
template <class X, class Y>
void convert(const void* x, void* y, int64_t n) {
  const auto* from = static_cast<const X*>(x);
  map_row(CopyStep{}, from, from, nullptr, static_cast<Y*>(y), n);
}
template <class Y>
void sum_rows(const float* a, const float* b, void* y, int64_t n) {
  map_row(SumStep{}, a, b, nullptr, static_cast<Y*>(y), n);
}
inline void add_scaled(const float* part, float weight, float* sum, int64_t n) {
  map_row(AddScaledStep{weight}, part, sum, nullptr, sum, n);
}
inline void sigmoid_row(const float* x, float* y, int64_t n) { map_row(SigmoidStep{}, x, x, nullptr, y, n); }

inline RowKernels kernels() {
  RowKernels made;
  made.rms_norm = {{{rms_norm<bf16, bf16>, rms_norm<bf16, float>}, {rms_norm<float, bf16>, rms_norm<float, float>}}};
  made.situ = {situ<bf16>, situ<float>};
  made.swiglu = {swiglu<bf16>, swiglu<float>};
  made.sigmoid_gate = {sigmoid_gate<bf16>, sigmoid_gate<float>};
  made.convert = {{{convert<bf16, bf16>, convert<bf16, float>}, {convert<float, bf16>, convert<float, float>}}};
  made.sum = {sum_rows<bf16>, sum_rows<float>};
  made.add_scaled = add_scaled;
  made.sigmoid = sigmoid_row;
  return made;
}

}  // namespace silt::SILT_SIMD_NAMESPACE::rows
SILT_SIMD_END;
