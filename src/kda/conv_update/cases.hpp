// Cases of causal_conv1d_update: random tensors from a problem line, a run on any device, and the comparison with the
// oracle. Used by the tests, by `silt check` and by silt-bench.
#pragma once

#include <string>
#include <vector>

#include "dispatch/operator.hpp"
#include "kda/conv_update/problem.hpp"
#include "proof/case_tensor.hpp"
#include "proof/record_launch.hpp"

namespace silt {

struct CausalConv1dUpdateCase {
  CausalConv1dUpdateCase(const CausalConv1dUpdateProblem& problem, uint64_t seed);

  /// Poisons the output, copies everything to the device and keeps what was there before for `verify`.
  Status upload(Device device);
  /// The arguments on the device; valid after `upload`.
  [[nodiscard]] CausalConv1dUpdateArgs args() const;
  Status download();
  /// upload, causal_conv1d_update, download.
  Status run(Device device, const Launch& launch);
  /// Every channel against the double-precision reference; history bit for bit; padding zero; nothing else touched.
  [[nodiscard]] Verdict verify();

  /// Every tensor by its argument's name, absent ones too.
  std::vector<NamedTensor> tensors();

  CausalConv1dUpdateProblem problem;
  CaseTensor x;
  CaseTensor weight;
  CaseTensor bias;
  CaseTensor conv_state;
  CaseTensor state_indices;
  CaseTensor output;

 private:
  template <class Act>
  [[nodiscard]] Verdict verify_rows();

  CaseTensor conv_state_before_;
  std::vector<std::byte> output_before_;
};

/// The standing table: tokens, channel counts, layouts, strides, alignments and dtypes.
std::vector<std::string> causal_conv1d_update_check_lines();
Operator causal_conv1d_update_operator();

}  // namespace silt
