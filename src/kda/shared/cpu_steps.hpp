// The steps of a KDA head in portable C++: what the cpu_plain_rows kernels of the family are made of. Vectors are one
// head (128 floats). Sums are kept in 16 partial sums added by a fixed tree, so that a result depends on its inputs
// alone, on every instruction set.
#pragma once

#include "kda/shared/cpu_width.hpp"
#include "kda/shared/reference.hpp"

namespace silt::kda::SILT_KDA_CPU {

struct alignas(64) Vector {
  float values[kDim];

  float& operator[](int64_t i) { return values[i]; }
  const float& operator[](int64_t i) const { return values[i]; }
};

/// What the delta rule reads: q and k normalised, and both times the decay, so that one pass over the state gives the
/// prediction and the readout: o = S.(decay*q) + e*(k.q).
struct Step {
  Vector q;
  Vector k;
  Vector v;
  Vector decay;
  Vector decayed_q;
  Vector decayed_k;
  float beta;
  float kq;
};

/// Four rows of inputs, oldest first, one channel after the other.
template <class Act>
using Taps = const Act* [kTaps];

/// z = SiLU(bias + sum of weight * input) for up to 128 channels; weights of tap j at weight + j * tap_stride. The rest
/// of z is 0.
template <class Act>
void convolve(const float* weight, int64_t tap_stride, const float* bias, const Taps<Act>& taps, int64_t channels,
              Vector& z);
/// x / ||x||, times `scale`.
void normalise(Vector& x, float scale);
void decay_factors(const HeadWeights& weights, const Vector& raw_gate, Vector& decay);
float beta_of(float raw);
/// Normalises q and k and folds the decay into them: everything of `step` but v and beta from q, k and decay.
void fold(Step& step);
/// One step on a stored state of 128 x 128, in place; computed in fp32, rounded once where the state is bf16.
template <class Stored>
void delta_rule(const Step& step, Stored* state, Vector& o);
/// x * rsqrt(mean(x^2) + eps) * weight * act(gate), rounded once.
template <class In, class GateAct, class Out>
void gated_norm(const In* x, const GateAct* gate, const float* weight, float eps, GateActivation activation, Out* y);

/// 128 elements at an offset of a tensor of either type.
void widen(const void* data, DType dtype, int64_t offset, Vector& y);
void narrow(const Vector& x, void* data, DType dtype, int64_t offset);
void widen(const float* x, Vector& y);
void widen(const bf16* x, Vector& y);
/// `channels` values with one rounding.
void narrow(const Vector& x, int64_t channels, float* y);
void narrow(const Vector& x, int64_t channels, bf16* y);

}  // namespace silt::kda::SILT_KDA_CPU
