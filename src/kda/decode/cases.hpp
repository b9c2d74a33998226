// Cases of kda_decode: random tensors from a problem line, a run on any device, and the comparison with the oracle.
// Used by the tests, by `silt check` and by silt-bench.
#pragma once

#include <string>
#include <vector>

#include "dispatch/operator.hpp"
#include "kda/decode/problem.hpp"
#include "proof/case_tensor.hpp"
#include "proof/record_launch.hpp"

namespace silt {

struct KdaDecodeCase {
  KdaDecodeCase(const KdaDecodeProblem& problem, uint64_t seed);

  /// Poisons the output, copies everything to the device and keeps what was there before for `verify`.
  Status upload(Device device);
  /// The arguments on the device; valid after `upload`.
  [[nodiscard]] KdaDecodeArgs args() const;
  Status download();
  /// upload, kda_decode, download.
  Status run(Device device, const Launch& launch);
  /// Every row against the double-precision reference; history bit for bit; padding rows zero; nothing else touched.
  [[nodiscard]] Verdict verify();

  /// The arguments in host memory with state and history as they were before the run.
  [[nodiscard]] KdaDecodeArgs host_args_before();

  /// Every tensor by its argument's name, absent ones too.
  std::vector<NamedTensor> tensors();

  KdaDecodeProblem problem;
  float norm_eps = 1e-5F;
  CaseTensor x;
  CaseTensor conv_weight;
  CaseTensor conv_bias;
  CaseTensor conv_state;
  CaseTensor raw_gate;
  CaseTensor raw_beta;
  CaseTensor A_log;
  CaseTensor dt_bias;
  CaseTensor state_indices;
  CaseTensor state;
  CaseTensor output_gate;
  CaseTensor norm_weight;
  CaseTensor output;

 private:
  CaseTensor conv_state_before_;
  CaseTensor state_before_;
  std::vector<std::byte> output_before_;
};

/// The standing table: every call key, head counts, layouts, strides, alignments and dtypes.
std::vector<std::string> kda_decode_check_lines();
Operator kda_decode_operator();

}  // namespace silt
