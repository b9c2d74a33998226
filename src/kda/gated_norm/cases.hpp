// Cases of rms_norm_gated: random tensors from a problem line, a run on any device, and the comparison with the oracle.
// Used by the tests, by `silt check` and by silt-bench.
#pragma once

#include <string>
#include <vector>

#include "dispatch/operator.hpp"
#include "kda/gated_norm/problem.hpp"
#include "proof/case_tensor.hpp"
#include "proof/record_launch.hpp"

namespace silt {

struct RmsNormGatedCase {
  RmsNormGatedCase(const RmsNormGatedProblem& problem, uint64_t seed);

  /// Poisons the output and copies everything to the device.
  Status upload(Device device);
  /// The arguments on the device; valid after `upload`.
  [[nodiscard]] RmsNormGatedArgs args() const;
  Status download();
  /// upload, rms_norm_gated, download.
  Status run(Device device, const Launch& launch);
  /// Every head against the double-precision reference; nothing else touched.
  [[nodiscard]] Verdict verify();

  /// Every tensor by its argument's name.
  std::vector<NamedTensor> tensors();

  RmsNormGatedProblem problem;
  float eps = 1e-5F;
  CaseTensor x;
  CaseTensor gate;
  CaseTensor weight;
  CaseTensor output;

 private:
  std::vector<std::byte> output_before_;
};

/// The standing table: activations, head counts, dtypes, strides and alignments.
std::vector<std::string> rms_norm_gated_check_lines();
Operator rms_norm_gated_operator();

}  // namespace silt
