#include "kda/shared/bounds.hpp"

#include <algorithm>
#include <cmath>

#include "proof/compare.hpp"

namespace silt::kda {
namespace {

constexpr size_t kN = static_cast<size_t>(kDim);
/// A transcendental function (exp, sigmoid, softplus, reciprocal root) in fp32, fast forms of GPUs included.
constexpr double kFunction = 8 * kFloatEpsilon;

/// Rules for inf and NaN: where the exact value is not finite, a comparison asks for the same non-finite value, and
/// the bound does not matter; it must only not spoil its neighbours.
double finite(double x) { return std::isfinite(x) ? x : 0; }

double norm_of(const HeadVector<double>& x) {
  double squares = 0;
  for (const double value : x) squares += value * value;
  return std::sqrt(squares);
}

/// Error of x / ||x|| * scale. A short x is made longer, 1000 times at most, and so is what it loses as a denormal.
HeadVector<double> normalised_error(const HeadVector<double>& x, const HeadVector<double>& error,
                                    const HeadVector<double>& result, double scale) {
  const double r = inverse_root(norm_of(x) * norm_of(x) + static_cast<double>(kL2Epsilon));
  const double relative = r * norm_of(error) + sum_error(kDim) + kFunction;
  HeadVector<double> out;
  for (size_t i = 0; i < kN; ++i) out[i] = finite(r * scale * (error[i] + kDenormal) + std::abs(result[i]) * relative);
  return out;
}

/// Relative error of a decay factor.
double decay_error(const GateRule& rule, float dt_bias, double raw_gate) {
  const double a = std::exp(static_cast<double>(rule.A_log));
  const double g = raw_gate + static_cast<double>(dt_bias);
  const double g_error = 2 * kFloatEpsilon * (std::abs(raw_gate) + std::abs(static_cast<double>(dt_bias)));
  double log_error = 0;
  if (rule.gate == Gate::safe) {
    const double s = sigmoid(a * g);
    const double moved = finite(s * (1 - s) * a * (g_error + kFunction * std::abs(g)));
    log_error = std::abs(static_cast<double>(rule.lower_bound)) * (moved + kFunction * s);
  } else {
    log_error = finite(a * sigmoid(g) * g_error) + finite(a * softplus(g)) * 2 * kFunction;
  }
  return log_error + kFunction;
}

}  // namespace

double conv_error(double magnitude, double z) {
  // |silu'| < 1.1; four products and a bias.
  return finite(1.1 * sum_error(kTaps) * magnitude + kFunction * std::abs(z)) + kFlushed;
}

InputErrors conv_errors(const TokenResult<double>& token) {
  InputErrors errors;
  for (size_t part = 0; part < errors.size(); ++part) {
    for (size_t c = 0; c < kN; ++c) errors[part][c] = conv_error(token.magnitude[part][c], token.z[part][c]);
  }
  return errors;
}

const std::vector<double>& HeadBound::magnitudes(const double* state_before, const HeadVector<double>& decay) {
  if (tokens_ % window_ == 0) {
    if (tokens_ > 0) parts_[0] = parts_[1];
    parts_[1].assign(state_before, state_before + kN * kN);
    for (double& part : parts_[1]) part = std::abs(part);
    if (tokens_ == 0 || window_ == 1) parts_[0] = parts_[1];
  }
  ++tokens_;
  for (auto& parts : parts_) {
    for (size_t i = 0; i < parts.size(); ++i) parts[i] *= decay[i % kN];
  }
  return parts_[0];
}

void HeadBound::add_part(int64_t v, double correction, const HeadVector<double>& k) {
  if (window_ == 1) return;
  for (auto& parts : parts_) {
    for (size_t i = 0; i < kN; ++i) parts[static_cast<size_t>(v) * kN + i] += std::abs(correction * k[i]);
  }
}

double HeadBound::lost(int64_t v, const double* row_before) {
  const auto row = static_cast<size_t>(v);
  const bool begins = (tokens_ - 1) % window_ == 0;  // magnitudes() has counted this token
  if (begins) largest_[0][row] = window_ == 1 ? 0 : largest_[1][row];
  if (begins) largest_[1][row] = 0;
  for (size_t k = 0; k < kN; ++k) {
    for (auto& largest : largest_) largest[row] = std::max(largest[row], std::abs(row_before[k]));
  }
  // A sum of parts of a window is at most that many times two of its values in magnitude.
  return kDenormal * largest_[0][row] * (window_ == 1 ? 1 : 2 * static_cast<double>(window_));
}

HeadVector<double> HeadBound::step(const GateRule& rule, const InputErrors& inputs, const double* state_before,
                                   const TokenResult<double>& token) {
  const StepInputs<double>& in = token.step;
  const HeadVector<double> q_error =
      normalised_error(token.z[0], inputs[0], in.q, 1 / std::sqrt(static_cast<double>(kDim)));
  const HeadVector<double> k_error = normalised_error(token.z[1], inputs[1], in.k, 1);
  HeadVector<double> decay;
  double largest_decay = 0;
  double kq = 0;        // sum |k q|
  double kq_error = 0;  // what moves k.q
  for (size_t k = 0; k < kN; ++k) {
    decay[k] = decay_error(rule, rule.dt_bias[k], token.raw_gate[k]);
    largest_decay = std::max(largest_decay, in.decay[k]);
    kq += std::abs(in.k[k] * in.q[k]);
    kq_error += k_error[k] * std::abs(in.q[k]) + std::abs(in.k[k]) * q_error[k];
  }
  const double sum = sum_error(kDim);
  kq_error += sum * kq;
  // Of tokens taken together: the sum over them, and a product of up to so many decays.
  const double together = window_ == 1 ? 0 : sum_error(window_) + static_cast<double>(window_) * kFloatEpsilon;
  const std::vector<double>& parts = magnitudes(state_before, in.decay);
  const double q_norm = norm_of(in.q);

  HeadVector<double> o_error;
  for (size_t v = 0; v < kN; ++v) {
    const double* row = state_before + v * kN;
    const double* part = parts.data() + v * kN;
    const double flushed = lost(static_cast<int64_t>(v), row);
    double predicted = 0;
    double predicted_error = 0;
    double read_error = 0;
    for (size_t k = 0; k < kN; ++k) {
      predicted += row[k] * in.decay[k] * in.k[k];
      const double sums = part[k] * (decay[k] + sum + together) + flushed;
      predicted_error += sums * std::abs(in.k[k]) + part[k] * k_error[k];
      read_error += sums * std::abs(in.q[k]) + part[k] * q_error[k];
    }
    const double correction = (in.v[v] - predicted) * in.beta;
    const double correction_error =
        in.beta * (inputs[2][v] + predicted_error + 2 * kFloatEpsilon * (std::abs(in.v[v]) + std::abs(predicted)) +
                   together * std::abs(in.v[v])) +
        2 * kFunction * std::abs(correction);
    double squares = 0;
    for (size_t k = 0; k < kN; ++k) {
      const double moved = part[k] * (decay[k] + 2 * kFloatEpsilon + together) + flushed +
                           correction_error * std::abs(in.k[k]) +
                           std::abs(correction) * (k_error[k] + (4 * kFloatEpsilon + together) * std::abs(in.k[k]));
      squares += moved * moved;
    }
    const double carried = largest_decay * rows_[v];
    o_error[v] = finite(read_error + correction_error * kq + std::abs(correction) * (kq_error + together * kq) +
                        carried * q_norm);
    rows_[v] = finite(carried + std::sqrt(squares)) + kFlushed;
    add_part(static_cast<int64_t>(v), correction, in.k);
  }
  return o_error;
}

HeadVector<double> norm_error(const HeadVector<double>& x, const HeadVector<double>& x_error,
                              const HeadVector<double>& y, const HeadVector<double>& gate, const float* weight,
                              float eps, GateActivation activation) {
  const double mean = norm_of(x) * norm_of(x) / static_cast<double>(kDim);
  const double r = inverse_root(mean + static_cast<double>(eps));
  // d(mean)/2 * r^2, by Cauchy-Schwarz at most r * rms(x_error); then the sum and the root.
  const double relative =
      finite(r * norm_of(x_error) / std::sqrt(static_cast<double>(kDim))) + sum_error(kDim) + 2 * kFunction;
  HeadVector<double> out;
  for (size_t i = 0; i < kN; ++i) {
    const double act = activation == GateActivation::sigmoid ? sigmoid(gate[i]) : silu(gate[i]);
    const double factor = std::abs(r * static_cast<double>(weight[i]) * act);
    out[i] = finite(factor * x_error[i] + std::abs(y[i]) * relative) + kFlushed;
  }
  return out;
}

}  // namespace silt::kda
