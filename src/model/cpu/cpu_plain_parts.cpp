// cpu_plain: the decoder's parts as plain loops, for CPUs without any of the other targets. Products are rounded before
// they are added: without a fused multiply-add one would cost a library call.
#include <algorithm>
#include <cmath>

#include "model/cpu/cpu_parts.hpp"

namespace silt {
namespace {

template <class W, int kRows, int kPanels>
void run_tile(const ProductTile& t) {
  constexpr bool kNarrow = sizeof(W) == 2;
  for (int r = 0; r < kRows; ++r) {
    const auto* x = reinterpret_cast<const float*>(t.x[r]);
    for (int j = 0; j < kPanels; ++j) {
      float* y = t.y + r * t.y_stride + j * kPanelColumns;
      if (!t.go_on) std::fill_n(y, kPanelColumns, 0.0F);
      const W* w = reinterpret_cast<const W*>(t.w) + j * kPairValues;
      for (int64_t pair = 0; pair < t.pairs; ++pair, w += t.w_step) {
        for (int64_t c = 0; c < kPanelColumns; ++c) {
          const float first = to_float(w[kNarrow ? 2 * c : c]);
          const float second = to_float(w[kNarrow ? 2 * c + 1 : kPanelColumns + c]);
          y[c] += second * x[2 * pair + 1];
          y[c] += first * x[2 * pair];
        }
      }
    }
  }
}

template <class W>
TileKernels kernels() {
  TileKernels made;
  made.most_rows = 1;
  made.panel[0] = run_tile<W, 1, 1>;
  made.group[0] = run_tile<W, 1, static_cast<int>(kGroupPanels)>;
  return made;
}

// ---- rows

template <class T>
T narrow(float value) {
  if constexpr (std::is_same_v<T, bf16>) {
    return to_bf16(value);
  } else {
    return value;
  }
}

float sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }

template <class X, class Y>
void rms_norm(const void* x, const float* weight, float eps, void* y, int64_t n) {
  const auto* from = static_cast<const X*>(x);
  float squares = 0;
  for (int64_t i = 0; i < n; ++i) squares += to_float(from[i]) * to_float(from[i]);
  const float scale = 1.0F / std::sqrt(squares / static_cast<float>(n) + eps);
  for (int64_t i = 0; i < n; ++i) static_cast<Y*>(y)[i] = narrow<Y>(to_float(from[i]) * scale * weight[i]);
}
template <class Y>
void situ(const float* gate, const float* up, float beta, float linear_beta, void* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float g = beta * std::tanh(gate[i] / beta) * sigmoid(gate[i]);
    static_cast<Y*>(y)[i] = narrow<Y>(g * linear_beta * std::tanh(up[i] / linear_beta));
  }
}
template <class Y>
void swiglu(const float* gate, const float* up, void* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) static_cast<Y*>(y)[i] = narrow<Y>(gate[i] * sigmoid(gate[i]) * up[i]);
}
template <class X>
void sigmoid_gate(const void* gate, void* x, int64_t n) {
  auto* value = static_cast<X*>(x);
  for (int64_t i = 0; i < n; ++i) {
    value[i] = narrow<X>(to_float(value[i]) * sigmoid(to_float(static_cast<const X*>(gate)[i])));
  }
}
template <class X, class Y>
void convert(const void* x, void* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) static_cast<Y*>(y)[i] = narrow<Y>(to_float(static_cast<const X*>(x)[i]));
}
template <class Y>
void sum_rows(const float* a, const float* b, void* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) static_cast<Y*>(y)[i] = narrow<Y>(a[i] + b[i]);
}
void add_scaled(const float* part, float weight, float* sum, int64_t n) {
  for (int64_t i = 0; i < n; ++i) sum[i] += weight * part[i];
}
void sigmoid_row(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = sigmoid(x[i]);
}

RowKernels row_kernels() {
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

// ---- attention

template <class Key>
void score(const AttentionTile& t) {
  for (int64_t r = 0; r < t.rows; ++r) {
    for (int64_t p = 0; p < t.positions; ++p) {
      const Key* key = static_cast<const Key*>(t.keys) + p * t.width;
      float sum = 0;
      for (int64_t c = 0; c < t.width; ++c) sum += t.queries[r * t.width + c] * to_float(key[c]);
      t.scores[r * kTilePositions + p] = sum;
    }
  }
}

template <class Key>
void mix(const AttentionTile& t) {
  for (int64_t r = 0; r < t.rows; ++r) {
    float* sums = t.sums + r * t.latent;
    for (int64_t c = 0; c < t.latent; ++c) sums[c] *= t.factors[r];
    for (int64_t p = 0; p < t.positions; ++p) {
      const Key* key = static_cast<const Key*>(t.keys) + p * t.width;
      for (int64_t c = 0; c < t.latent; ++c) sums[c] += to_float(key[c]) * t.scores[r * kTilePositions + p];
    }
  }
}

void keep(float*, int64_t) {}

float softmax(float* scores, int64_t visible, float scale, float* largest, float* total) {
  std::fill(scores + visible, scores + kTilePositions, 0.0F);
  if (visible == 0) return 1.0F;
  float top = *largest;
  for (int64_t p = 0; p < visible; ++p) {
    scores[p] *= scale;
    if (scores[p] > top) top = scores[p];
  }
  float sum = 0;
  for (int64_t p = 0; p < visible; ++p) sum += scores[p] = std::exp(scores[p] - top);
  const float factor = *total == 0 ? 0.0F : std::exp(*largest - top);
  *largest = top;
  *total = *total * factor + sum;
  return factor;
}

}  // namespace

const CpuParts& cpu_plain_parts() {
  static const CpuParts parts = [] {
    CpuParts made{.name = "cpu_plain"};
    made.narrow = kernels<bf16>();
    made.f32 = kernels<float>();
    made.bf16 = made.narrow;
    made.rows = row_kernels();
    made.attention = {.score = {score<bf16>, score<float>},
                      .mix = {mix<bf16>, mix<float>},
                      .softmax = softmax,
                      .arrange = {keep, keep},
                      .restore = {keep, keep}};
    return made;
  }();
  return parts;
}

}  // namespace silt
