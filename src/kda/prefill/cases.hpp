// Cases of kda_prefill: random tensors from a problem line, a run on any device, and the comparison with the oracle.
// Used by the tests, by `silt check` and by silt-bench.
#pragma once

#include <string>
#include <vector>

#include "dispatch/operator.hpp"
#include "kda/prefill/problem.hpp"
#include "proof/case_tensor.hpp"
#include "proof/record_launch.hpp"

namespace silt {

struct KdaPrefillCase {
  KdaPrefillCase(const KdaPrefillProblem& problem, uint64_t seed);

  /// Poisons the output, copies everything to the device and keeps what was there before for `verify`.
  Status upload(Device device);
  /// The arguments on the device; valid after `upload`.
  [[nodiscard]] KdaPrefillArgs args() const;
  Status download();
  /// upload, kda_prefill, download.
  Status run(Device device, const Launch& launch);
  /// Every token against the double-precision reference; history bit for bit; padding zero; rows outside the offsets
  /// and all other memory untouched.
  [[nodiscard]] Verdict verify();

  /// The arguments in host memory with state and history as they were before the run.
  [[nodiscard]] KdaPrefillArgs host_args_before();

  /// Every tensor by its argument's name, absent ones too.
  std::vector<NamedTensor> tensors();

  KdaPrefillProblem problem;
  float norm_eps = 1e-5F;
  CaseTensor x;
  CaseTensor conv_weight;
  CaseTensor conv_bias;
  CaseTensor conv_state;
  CaseTensor raw_gate;
  CaseTensor raw_beta;
  CaseTensor A_log;
  CaseTensor dt_bias;
  CaseTensor offsets;
  CaseTensor state_indices;
  CaseTensor has_initial_state;
  CaseTensor state;
  CaseTensor output_gate;
  CaseTensor norm_weight;
  CaseTensor output;

 private:
  [[nodiscard]] Verdict verify_untouched();

  CaseTensor conv_state_before_;
  CaseTensor state_before_;
  std::vector<std::byte> output_before_;
};

/// The standing table: sequences and tokens, call keys, head counts, layouts, strides, alignments and dtypes.
std::vector<std::string> kda_prefill_check_lines();
Operator kda_prefill_operator();

}  // namespace silt
