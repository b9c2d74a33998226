// What: the reference of rms_norm_gated as a kernel: plain loops in fp32, always there, last in the list.
#include "kda/gated_norm/cpu/cpu_reference.hpp"

#include "kda/gated_norm/reference.hpp"

namespace silt::rms_norm_gated_cpu_reference {

Status launch(const RmsNormGatedProblem& problem, const RmsNormGatedArgs& args, const Launch&) {
  for (int64_t row = 0; row < problem.t; ++row) {
    for (int64_t head = 0; head < problem.h; ++head) {
      kda::store_head(rms_norm_gated_reference<float>(problem, args, row, head), args.output.data, problem.output,
                      rms_norm_gated_at(problem.output_stride, row, head));
    }
  }
  return {};
}

}  // namespace silt::rms_norm_gated_cpu_reference
