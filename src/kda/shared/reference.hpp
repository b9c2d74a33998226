// The maths of one token of one KDA head, in plain loops. `Real` is float (the cpu_reference kernels) or double (the
// oracle of every test). Notation of the contracts: z = activated convolution, q and k normalised, S[v][k].
#pragma once

#include <array>
#include <type_traits>
#include <vector>

#include "silt/dtype.hpp"
#include "silt/rms_norm_gated.hpp"

#include "kda/shared/layout.hpp"

namespace silt::kda {

template <class Real>
using HeadVector = std::array<Real, static_cast<size_t>(kDim)>;

/// Parameters of one head in host memory, the same for every token. Parts are q, k, v.
struct HeadWeights {
  const float* conv_weight = nullptr;  ///< tap 0 of part 0; a part is kTaps * tap_stride further
  const float* conv_bias = nullptr;    ///< of part 0, or null; a part is tap_stride further
  int64_t tap_stride = 0;              ///< P
  Gate gate = Gate::safe;
  float lower_bound = 0;
  float A_log = 0;
  const float* dt_bias = nullptr;
  const float* norm_weight = nullptr;  ///< null: no output norm
  float norm_eps = 0;
};

/// One token of one head in host memory.
template <class Act>
struct HeadToken {
  const Act* x = nullptr;  ///< part 0; a part is part_stride further
  int64_t part_stride = 0;
  const Act* raw_gate = nullptr;
  const Act* raw_beta = nullptr;
  const Act* output_gate = nullptr;
};

/// The raw inputs of the last three tokens: [part][step, oldest first][channel].
template <class Act>
using Window = std::array<std::array<std::array<Act, static_cast<size_t>(kDim)>, static_cast<size_t>(kHistory)>,
                          static_cast<size_t>(kParts)>;

/// A head's history in conv_state: `slot` is the slot's first element, `channel` the head's first channel of part 0.
template <class Act>
struct HistoryView {
  Act* slot = nullptr;
  History layout = History::sd;
  int64_t channels = 0;  ///< 3P
  int64_t channel = 0;

  [[nodiscard]] Act& at(int64_t part, int64_t step, int64_t c) const {
    const int64_t place = channel + part * (channels / kParts) + c;
    return slot[layout == History::sd ? step * channels + place : place * kHistory + step];
  }
};

/// The one rounding of an output: to nearest even, or none.
template <class Act>
Act rounded(float value) {
  if constexpr (std::is_same_v<Act, bf16>) {
    return to_bf16(value);
  } else {
    return value;
  }
}

template <class Act>
void load_window(const HistoryView<Act>& history, Window<Act>* window);
template <class Act>
void store_window(const HistoryView<Act>& history, const Window<Act>& window);

template <class Real>
Real sigmoid(Real x);
/// x * sigmoid(x)
template <class Real>
Real silu(Real x);
/// log(1 + exp(x)), x above 20.
template <class Real>
Real softplus(Real x);
/// 1 / sqrt(x); 0 where x leaves the fp32 range (contracts: overflow).
template <class Real>
Real inverse_root(Real x);

/// What one token feeds into the delta rule.
template <class Real>
struct StepInputs {
  HeadVector<Real> q{};  ///< normalised and scaled
  HeadVector<Real> k{};  ///< normalised
  HeadVector<Real> v{};
  HeadVector<Real> decay{};
  Real beta = 0;
};

/// x / ||x||, times `scale`.
template <class Real>
void normalise(HeadVector<Real>& x, Real scale);
template <class Real>
Real decay_of(Gate gate, float lower_bound, float A_log, float dt_bias, float raw_gate);
/// One step on a state of 128 x 128: decay, correct, read out.
template <class Real>
void delta_rule(const StepInputs<Real>& in, Real* state, HeadVector<Real>* o);
/// x * rsqrt(mean(x^2) + eps) * weight * act(gate)
template <class Real>
HeadVector<Real> gated_norm(const HeadVector<Real>& x, const HeadVector<Real>& gate, const float* weight, float eps,
                            GateActivation activation);

template <class Real>
struct TokenResult {
  std::array<HeadVector<Real>, static_cast<size_t>(kParts)> z{};          ///< after SiLU
  std::array<HeadVector<Real>, static_cast<size_t>(kParts)> magnitude{};  ///< sum of |terms| of the convolution
  HeadVector<Real> raw_gate{};
  StepInputs<Real> step;
  HeadVector<Real> o{};
  HeadVector<Real> output_gate{};
  HeadVector<Real> output{};  ///< o, or normalised and gated; before the last rounding
};

/// Steps 2 to 5 on result->z: normalise, gate, delta rule on `state`, readout.
template <class Real, class Act>
void reference_step(const HeadWeights& weights, const Act* raw_gate, const Act* raw_beta, Real* state,
                    TokenResult<Real>* result);

/// A whole token: convolution with `window` (which moves on by one step), gate, delta rule on `state`, output norm.
template <class Real, class Act>
void reference_token(const HeadWeights& weights, const HeadToken<Act>& token, Window<Act>* window, Real* state,
                     TokenResult<Real>* result);

/// 128 elements at an offset, and back with one rounding.
template <class Real>
HeadVector<Real> load_head(const void* data, DType dtype, int64_t offset);
void store_head(const HeadVector<float>& head, void* data, DType dtype, int64_t offset);

/// A stored head state (fp32 or bf16, 128 x 128) as Real, and back with one rounding.
template <class Real>
void load_state(const void* stored, DType dtype, std::vector<Real>* state);
void store_state(const std::vector<float>& state, DType dtype, void* stored);

}  // namespace silt::kda
