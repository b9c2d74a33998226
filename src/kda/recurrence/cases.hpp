// Cases of kda_recurrence: random tensors from a problem line, a run on any device, and the comparison with the oracle.
// Used by the tests, by `silt check` and by silt-bench.
#pragma once

#include <string>
#include <vector>

#include "dispatch/operator.hpp"
#include "kda/recurrence/problem.hpp"
#include "proof/case_tensor.hpp"
#include "proof/record_launch.hpp"

namespace silt {

struct KdaRecurrenceCase {
  KdaRecurrenceCase(const KdaRecurrenceProblem& problem, uint64_t seed);

  /// Poisons the output, copies everything to the device and keeps what was there before for `verify`.
  Status upload(Device device);
  /// The arguments on the device; valid after `upload`.
  [[nodiscard]] KdaRecurrenceArgs args() const;
  Status download();
  /// upload, kda_recurrence, download.
  Status run(Device device, const Launch& launch);
  /// Every token against the double-precision reference; padding zero; rows outside the offsets and all other memory
  /// untouched.
  [[nodiscard]] Verdict verify();

  /// Every tensor by its argument's name, absent ones too.
  std::vector<NamedTensor> tensors();

  KdaRecurrenceProblem problem;
  CaseTensor q;
  CaseTensor k;
  CaseTensor v;
  CaseTensor raw_gate;
  CaseTensor raw_beta;
  CaseTensor A_log;
  CaseTensor dt_bias;
  CaseTensor offsets;
  CaseTensor state_indices;
  CaseTensor accepted;
  CaseTensor state;
  CaseTensor output;

 private:
  CaseTensor state_before_;
  std::vector<std::byte> output_before_;
};

/// The standing table: sequences and tokens, head counts, strides, alignments and dtypes.
std::vector<std::string> kda_recurrence_check_lines();
Operator kda_recurrence_operator();

}  // namespace silt
