// What: rms_norm_gated as its contract reads; the maths is kda/shared/reference.cpp.
#include "kda/gated_norm/reference.hpp"

namespace silt {

template <class Real>
kda::HeadVector<Real> rms_norm_gated_reference(const RmsNormGatedProblem& problem, const RmsNormGatedArgs& args,
                                               int64_t row, int64_t head) {
  return kda::gated_norm(
      kda::load_head<Real>(args.x.data, problem.x, rms_norm_gated_at(problem.x_stride, row, head)),
      kda::load_head<Real>(args.gate.data, problem.gate, rms_norm_gated_at(problem.gate_stride, row, head)),
      static_cast<const float*>(args.weight.data), args.eps, problem.activation);
}

template kda::HeadVector<float> rms_norm_gated_reference(const RmsNormGatedProblem&, const RmsNormGatedArgs&, int64_t,
                                                         int64_t);
template kda::HeadVector<double> rms_norm_gated_reference(const RmsNormGatedProblem&, const RmsNormGatedArgs&, int64_t,
                                                          int64_t);

}  // namespace silt
