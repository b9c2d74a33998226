// What fp32 arithmetic may move in one token of a head: the derived part of every KDA tolerance. Derivation and
// formulas: contract.md of decode (one token) and of prefill (many).
#pragma once

#include <vector>

#include "kda/shared/reference.hpp"

namespace silt::kda {

/// What a flushed denormal loses at most.
constexpr double kDenormal = 0x1p-126;
/// A magnitude that flushed denormals can lose; covers a head's worth of them.
constexpr double kFlushed = 128 * kDenormal;

/// Absolute errors of q, k, v before the L2 norm.
using InputErrors = std::array<HeadVector<double>, static_cast<size_t>(kParts)>;

/// Of an activated convolution.
double conv_error(double magnitude, double z);
InputErrors conv_errors(const TokenResult<double>& token);

struct GateRule {
  Gate gate = Gate::safe;
  float lower_bound = 0;
  float A_log = 0;
  const float* dt_bias = nullptr;
};

/// Follows one head's state through its tokens, for kernels that may take up to `window` neighbouring tokens together
/// (contract.md of prefill); 1 is the token loop.
class HeadBound {
 public:
  explicit HeadBound(int64_t window = 1) : window_(window) {}

  /// Moves on by a token: `state_before` is the exact state before it, `token` the exact result. Returns the absolute
  /// error of o.
  HeadVector<double> step(const GateRule& rule, const InputErrors& inputs, const double* state_before,
                          const TokenResult<double>& token);
  /// Euclidean error of row v of the state.
  [[nodiscard]] double row(int64_t v) const { return rows_[static_cast<size_t>(v)]; }

 private:
  /// Magnitudes S'[v][k] that a readout of this token may be summed from: those of the state itself, or of its parts.
  const std::vector<double>& magnitudes(const double* state_before, const HeadVector<double>& decay);
  /// The token's own part.
  void add_part(int64_t v, double correction, const HeadVector<double>& k);
  /// What row v loses an element where its decay, or a product of decays of a window, is a denormal that is flushed.
  double lost(int64_t v, const double* row_before);

  int64_t window_;
  int64_t tokens_ = 0;
  HeadVector<double> rows_{};
  HeadVector<double> largest_[2]{};  ///< elements of a row before their decays, kept apart as the parts are
  std::vector<double> parts_[2];     ///< the parts' magnitudes, kept apart for at least a window, and for less than one
};

/// Error of the gated norm's result, from the error of its input.
HeadVector<double> norm_error(const HeadVector<double>& x, const HeadVector<double>& x_error,
                              const HeadVector<double>& y, const HeadVector<double>& gate, const float* weight,
                              float eps, GateActivation activation);

}  // namespace silt::kda
