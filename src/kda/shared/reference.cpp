// What: the steps of the KDA contracts in the order of their formulas; no SIMD, no threads.
// Rounding: none inside; everything stays in Real. Sums run left to right.
#include "kda/shared/reference.hpp"

#include <cmath>
#include <limits>

namespace silt::kda {
namespace {

constexpr size_t index(int64_t i) { return static_cast<size_t>(i); }
constexpr size_t kN = index(kDim);

}  // namespace

template <class Act>
void load_window(const HistoryView<Act>& history, Window<Act>* window) {
  for (int64_t part = 0; part < kParts; ++part) {
    for (int64_t step = 0; step < kHistory; ++step) {
      for (int64_t c = 0; c < kDim; ++c) (*window)[index(part)][index(step)][index(c)] = history.at(part, step, c);
    }
  }
}

template <class Act>
void store_window(const HistoryView<Act>& history, const Window<Act>& window) {
  for (int64_t part = 0; part < kParts; ++part) {
    for (int64_t step = 0; step < kHistory; ++step) {
      for (int64_t c = 0; c < kDim; ++c) history.at(part, step, c) = window[index(part)][index(step)][index(c)];
    }
  }
}

template <class Real>
Real sigmoid(Real x) {
  return 1 / (1 + std::exp(-x));
}

template <class Real>
Real silu(Real x) {
  return x * sigmoid(x);
}

template <class Real>
Real softplus(Real x) {
  return x > 20 ? x : std::log1p(std::exp(x));
}

template <class Real>
Real inverse_root(Real x) {
  if (x > static_cast<Real>(std::numeric_limits<float>::max())) return 0;
  return 1 / std::sqrt(x);
}

template <class Real>
void normalise(HeadVector<Real>& x, Real scale) {
  Real squares = 0;
  for (const Real value : x) squares += value * value;
  const Real r = inverse_root(squares + static_cast<Real>(kL2Epsilon));
  for (Real& value : x) value *= r * scale;
}

template <class Real>
Real decay_of(Gate gate, float lower_bound, float A_log, float dt_bias, float raw_gate) {
  const Real a = std::exp(static_cast<Real>(A_log));
  const Real g = static_cast<Real>(raw_gate) + static_cast<Real>(dt_bias);
  const Real log_decay = gate == Gate::safe ? static_cast<Real>(lower_bound) * sigmoid(a * g) : -a * softplus(g);
  return std::exp(log_decay);
}

template <class Real>
void delta_rule(const StepInputs<Real>& in, Real* state, HeadVector<Real>* o) {
  for (size_t v = 0; v < kN; ++v) {
    Real* row = state + v * kN;
    Real predicted = 0;
    for (size_t k = 0; k < kN; ++k) {
      row[k] *= in.decay[k];
      predicted += row[k] * in.k[k];
    }
    const Real correction = (in.v[v] - predicted) * in.beta;
    Real sum = 0;
    for (size_t k = 0; k < kN; ++k) {
      row[k] += correction * in.k[k];
      sum += row[k] * in.q[k];
    }
    (*o)[v] = sum;
  }
}

template <class Real>
HeadVector<Real> gated_norm(const HeadVector<Real>& x, const HeadVector<Real>& gate, const float* weight, float eps,
                            GateActivation activation) {
  Real squares = 0;
  for (const Real value : x) squares += value * value;
  // The sum leaves the fp32 range before its mean does.
  const bool overflow = squares > static_cast<Real>(std::numeric_limits<float>::max());
  const Real r = overflow ? 0 : inverse_root(squares / static_cast<Real>(kDim) + static_cast<Real>(eps));
  HeadVector<Real> y;
  for (size_t i = 0; i < kN; ++i) {
    const Real g = activation == GateActivation::sigmoid ? sigmoid(gate[i]) : silu(gate[i]);
    y[i] = x[i] * r * static_cast<Real>(weight[i]) * g;
  }
  return y;
}

template <class Real, class Act>
void reference_step(const HeadWeights& weights, const Act* raw_gate, const Act* raw_beta, Real* state,
                    TokenResult<Real>* result) {
  StepInputs<Real>& in = result->step;
  in.q = result->z[0];
  in.k = result->z[1];
  in.v = result->z[2];
  normalise(in.q, 1 / std::sqrt(static_cast<Real>(kDim)));
  normalise(in.k, Real{1});
  for (int64_t c = 0; c < kDim; ++c) {
    const float raw = to_float(raw_gate[c]);
    result->raw_gate[index(c)] = static_cast<Real>(raw);
    in.decay[index(c)] = decay_of<Real>(weights.gate, weights.lower_bound, weights.A_log, weights.dt_bias[c], raw);
  }
  in.beta = sigmoid(static_cast<Real>(to_float(*raw_beta)));
  delta_rule(in, state, &result->o);
}

template <class Real, class Act>
void reference_token(const HeadWeights& weights, const HeadToken<Act>& token, Window<Act>* window, Real* state,
                     TokenResult<Real>* result) {
  for (int64_t part = 0; part < kParts; ++part) {
    const float* w = weights.conv_weight + part * kTaps * weights.tap_stride;
    const Act* x = token.x + part * token.part_stride;
    auto& history = (*window)[index(part)];
    for (int64_t c = 0; c < kDim; ++c) {
      const float bias = weights.conv_bias == nullptr ? 0.0F : weights.conv_bias[part * weights.tap_stride + c];
      Real y = static_cast<Real>(bias);
      Real magnitude = std::abs(y);
      for (int64_t tap = 0; tap < kTaps; ++tap) {
        const Act input = tap < kHistory ? history[index(tap)][index(c)] : x[c];
        const Real term = static_cast<Real>(w[tap * weights.tap_stride + c]) * static_cast<Real>(to_float(input));
        y += term;
        magnitude += std::abs(term);
      }
      result->z[index(part)][index(c)] = silu(y);
      result->magnitude[index(part)][index(c)] = magnitude;
    }
    history[0] = history[1];
    history[1] = history[2];
    for (int64_t c = 0; c < kDim; ++c) history[2][index(c)] = x[c];
  }
  reference_step(weights, token.raw_gate, token.raw_beta, state, result);

  result->output = result->o;
  if (weights.norm_weight == nullptr) return;
  for (int64_t c = 0; c < kDim; ++c) {
    result->output_gate[index(c)] = static_cast<Real>(to_float(token.output_gate[c]));
  }
  result->output =
      gated_norm(result->o, result->output_gate, weights.norm_weight, weights.norm_eps, GateActivation::sigmoid);
}

template <class Real>
HeadVector<Real> load_head(const void* data, DType dtype, int64_t offset) {
  HeadVector<Real> head;
  for (size_t i = 0; i < kN; ++i) {
    const size_t at = index(offset) + i;
    head[i] = static_cast<Real>(dtype == DType::bf16 ? to_float(static_cast<const bf16*>(data)[at])
                                                     : static_cast<const float*>(data)[at]);
  }
  return head;
}

void store_head(const HeadVector<float>& head, void* data, DType dtype, int64_t offset) {
  for (size_t i = 0; i < kN; ++i) {
    const size_t at = index(offset) + i;
    if (dtype == DType::bf16) {
      static_cast<bf16*>(data)[at] = to_bf16(head[i]);
    } else {
      static_cast<float*>(data)[at] = head[i];
    }
  }
}

template <class Real>
void load_state(const void* stored, DType dtype, std::vector<Real>* state) {
  state->resize(kN * kN);
  for (size_t i = 0; i < kN * kN; ++i) {
    (*state)[i] = static_cast<Real>(dtype == DType::bf16 ? to_float(static_cast<const bf16*>(stored)[i])
                                                         : static_cast<const float*>(stored)[i]);
  }
}

void store_state(const std::vector<float>& state, DType dtype, void* stored) {
  for (size_t i = 0; i < kN * kN; ++i) {
    if (dtype == DType::bf16) {
      static_cast<bf16*>(stored)[i] = to_bf16(state[i]);
    } else {
      static_cast<float*>(stored)[i] = state[i];
    }
  }
}

template void load_window(const HistoryView<bf16>&, Window<bf16>*);
template void load_window(const HistoryView<float>&, Window<float>*);
template void store_window(const HistoryView<bf16>&, const Window<bf16>&);
template void store_window(const HistoryView<float>&, const Window<float>&);

// NOLINTBEGIN(bugprone-macro-parentheses): the argument is a type
#define SILT_INSTANTIATE(Real)                                                                                         \
  template Real sigmoid(Real);                                                                                         \
  template Real silu(Real);                                                                                            \
  template Real softplus(Real);                                                                                        \
  template Real inverse_root(Real);                                                                                    \
  template void normalise(HeadVector<Real>&, Real);                                                                    \
  template Real decay_of<Real>(Gate, float, float, float, float);                                                      \
  template void delta_rule(const StepInputs<Real>&, Real*, HeadVector<Real>*);                                         \
  template HeadVector<Real> gated_norm(const HeadVector<Real>&, const HeadVector<Real>&, const float*, float,          \
                                       GateActivation);                                                                \
  template void reference_step(const HeadWeights&, const bf16*, const bf16*, Real*, TokenResult<Real>*);               \
  template void reference_step(const HeadWeights&, const float*, const float*, Real*, TokenResult<Real>*);             \
  template void reference_token(const HeadWeights&, const HeadToken<bf16>&, Window<bf16>*, Real*, TokenResult<Real>*); \
  template void reference_token(const HeadWeights&, const HeadToken<float>&, Window<float>*, Real*,                    \
                                TokenResult<Real>*);                                                                   \
  template HeadVector<Real> load_head(const void*, DType, int64_t);                                                    \
  template void load_state(const void*, DType, std::vector<Real>*)
// NOLINTEND(bugprone-macro-parentheses)
SILT_INSTANTIATE(float);
SILT_INSTANTIATE(double);
#undef SILT_INSTANTIATE

}  // namespace silt::kda
