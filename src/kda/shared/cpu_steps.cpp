#include "kda/shared/cpu_steps.hpp"

#include <algorithm>
#include <cmath>

#include "kda/shared/cpu_maths.hpp"

namespace silt::kda::SILT_KDA_CPU {
namespace {

/// to_bf16 for a loop: the NaN case is a selection, not a branch.
bf16 round_lane(float value) {
  const uint32_t u = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const uint32_t quiet = (u >> 16) | 0x40u;
  return {static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded)};
}

float dot(const Vector& a, const Vector& b) {
  Lanes lanes;
  for (int64_t c = 0; c < kDim; c += kLanes) {
    for (int64_t i = 0; i < kLanes / kQuad; ++i) {
      lanes.quads[i] += load(a.values + c + i * kQuad) * load(b.values + c + i * kQuad);
    }
  }
  return lanes.sum();
}

/// y = f(x), element by element.
template <class F>
void map(const Vector& x, Vector& y, const F& f) {
  for (int64_t c = 0; c < kDim; c += kQuad) store(f(load(x.values + c), c), y.values + c);
}

/// One row of the state: prediction and readout in one pass, then the update. Returns o.
float step_row(const Step& step, float value, float* row) {
  Lanes predicted;
  Lanes read;
  for (int64_t c = 0; c < kDim; c += kLanes) {
    for (int64_t i = 0; i < kLanes / kQuad; ++i) {
      const int64_t at = c + i * kQuad;
      const Quad s = load(row + at);
      predicted.quads[i] += s * load(step.decayed_k.values + at);
      read.quads[i] += s * load(step.decayed_q.values + at);
    }
  }
  const float correction = (value - predicted.sum()) * step.beta;
  for (int64_t c = 0; c < kDim; c += kQuad) {
    store(load(row + c) * load(step.decay.values + c) + correction * load(step.k.values + c), row + c);
  }
  return read.sum() + correction * step.kq;
}

}  // namespace

void widen(const float* x, Vector& y) { std::copy_n(x, kDim, y.values); }
void widen(const bf16* x, Vector& y) {
  for (int64_t i = 0; i < kDim; ++i) y.values[i] = to_float(x[i]);
}

void narrow(const Vector& x, int64_t channels, float* y) { std::copy_n(x.values, channels, y); }
void narrow(const Vector& x, int64_t channels, bf16* y) {
  for (int64_t i = 0; i < channels; ++i) y[i] = round_lane(x.values[i]);
}

void widen(const void* data, DType dtype, int64_t offset, Vector& y) {
  if (dtype == DType::bf16) {
    widen(static_cast<const bf16*>(data) + offset, y);
  } else {
    widen(static_cast<const float*>(data) + offset, y);
  }
}

void narrow(const Vector& x, void* data, DType dtype, int64_t offset) {
  if (dtype == DType::bf16) {
    narrow(x, kDim, static_cast<bf16*>(data) + offset);
  } else {
    narrow(x, kDim, static_cast<float*>(data) + offset);
  }
}

template <class Act>
void convolve(const float* weight, int64_t tap_stride, const float* bias, const Taps<Act>& taps, int64_t channels,
              Vector& z) {
  std::fill_n(z.values, kDim, 0.0F);
  if (bias != nullptr) std::copy_n(bias, channels, z.values);
  for (int64_t tap = 0; tap < kTaps; ++tap) {
    const float* w = weight + tap * tap_stride;
    const Act* x = taps[tap];
    for (int64_t c = 0; c < channels; ++c) z.values[c] += w[c] * to_float(x[c]);
  }
  map(z, z, [](Quad y, int64_t) { return silu(y); });
}

void normalise(Vector& x, float scale) {
  const float factor = scale * (1.0F / std::sqrt(dot(x, x) + kL2Epsilon));
  map(x, x, [&](Quad value, int64_t) { return value * factor; });
}

void decay_factors(const HeadWeights& weights, const Vector& raw_gate, Vector& decay) {
  const float a = first(exp(all(weights.A_log)));
  map(raw_gate, decay, [&](Quad raw, int64_t c) {
    const Quad g = raw + load(weights.dt_bias + c);
    return exp(weights.gate == Gate::safe ? weights.lower_bound * sigmoid(a * g) : -a * softplus(g));
  });
}

float beta_of(float raw) { return first(sigmoid(all(raw))); }

void fold(Step& step) {
  constexpr float kScale = 0x1.6a09e6p-4F;  // 128^-0.5
  normalise(step.q, kScale);
  normalise(step.k, 1.0F);
  step.kq = dot(step.k, step.q);
  map(step.q, step.decayed_q, [&](Quad q, int64_t c) { return q * load(step.decay.values + c); });
  map(step.k, step.decayed_k, [&](Quad k, int64_t c) { return k * load(step.decay.values + c); });
}

template <class Stored>
void delta_rule(const Step& step, Stored* state, Vector& o) {
  for (int64_t v = 0; v < kDim; ++v) {
    Stored* row = state + v * kDim;
    if constexpr (std::is_same_v<Stored, float>) {
      o[v] = step_row(step, step.v[v], row);
    } else {
      Vector wide;
      widen(row, wide);
      o[v] = step_row(step, step.v[v], wide.values);
      narrow(wide, kDim, row);
    }
  }
}

template <class In, class GateAct, class Out>
void gated_norm(const In* x, const GateAct* gate, const float* weight, float eps, GateActivation activation, Out* y) {
  Vector value;
  Vector g;
  widen(x, value);
  widen(gate, g);
  const float r = 1.0F / std::sqrt(dot(value, value) / static_cast<float>(kDim) + eps);
  map(value, value, [&](Quad v, int64_t c) {
    const Quad open = load(g.values + c);
    return v * r * load(weight + c) * (activation == GateActivation::sigmoid ? sigmoid(open) : silu(open));
  });
  narrow(value, kDim, y);
}

template void convolve(const float*, int64_t, const float*, const Taps<bf16>&, int64_t, Vector&);
template void convolve(const float*, int64_t, const float*, const Taps<float>&, int64_t, Vector&);
template void delta_rule(const Step&, float*, Vector&);
template void delta_rule(const Step&, bf16*, Vector&);

#define SILT_INSTANTIATE(In, GateAct)                                                              \
  template void gated_norm(const In*, const GateAct*, const float*, float, GateActivation, bf16*); \
  template void gated_norm(const In*, const GateAct*, const float*, float, GateActivation, float*)
SILT_INSTANTIATE(float, bf16);
SILT_INSTANTIATE(float, float);
SILT_INSTANTIATE(bf16, bf16);
SILT_INSTANTIATE(bf16, float);
#undef SILT_INSTANTIATE

}  // namespace silt::kda::SILT_KDA_CPU
