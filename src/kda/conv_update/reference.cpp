// What: causal_conv1d_update as its contract reads, one channel at a time.
// Rounding: none inside; everything stays in Real. Sums run from the bias to the newest tap.
#include "kda/conv_update/reference.hpp"

#include <cmath>

namespace silt {

template <class Real, class Act>
void causal_conv1d_update_reference(const CausalConv1dUpdateProblem& problem, const CausalConv1dUpdateArgs& args,
                                    int64_t row, int64_t channel, int64_t slot,
                                    CausalConv1dUpdateResult<Real, Act>* result) {
  const int64_t per_part = problem.c / kda::kParts;
  const int64_t part = channel / per_part;
  const float* weight = static_cast<const float*>(args.weight.data) + part * kda::kTaps * per_part + channel % per_part;
  const Real bias = problem.bias ? static_cast<Real>(static_cast<const float*>(args.bias.data)[channel]) : Real{0};
  const Act* x = static_cast<const Act*>(args.x.data) + row * problem.x_stride + channel;
  const auto old = causal_conv1d_update_history<Act>(problem, args, slot);

  std::vector<Act> window;
  for (int64_t step = 0; step < kda::kHistory; ++step) window.push_back(old.at(part, step, channel % per_part));
  for (int64_t t = 0; t < problem.n; ++t) window.push_back(x[t * problem.x_token_stride]);
  result->z.clear();
  result->magnitude.clear();
  for (int64_t t = 0; t < problem.n; ++t) {
    Real y = bias;
    Real magnitude = std::abs(bias);
    for (int64_t tap = 0; tap < kda::kTaps; ++tap) {
      const Real term =
          static_cast<Real>(weight[tap * per_part]) * static_cast<Real>(to_float(window[static_cast<size_t>(t + tap)]));
      y += term;
      magnitude += std::abs(term);
    }
    result->z.push_back(kda::silu(y));
    result->magnitude.push_back(magnitude);
  }
  for (size_t step = 0; step < result->history.size(); ++step) {
    result->history[step] = window[static_cast<size_t>(problem.n) + step];
  }
}

#define SILT_INSTANTIATE(Real, Act)                                                                             \
  template void causal_conv1d_update_reference(const CausalConv1dUpdateProblem&, const CausalConv1dUpdateArgs&, \
                                               int64_t, int64_t, int64_t, CausalConv1dUpdateResult<Real, Act>*)
SILT_INSTANTIATE(float, bf16);
SILT_INSTANTIATE(float, float);
SILT_INSTANTIATE(double, bf16);
SILT_INSTANTIATE(double, float);
#undef SILT_INSTANTIATE

}  // namespace silt
