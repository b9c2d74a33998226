// Cases of attn_res: random tensors from a problem line, a run on any device, and the comparison with the oracle. Used
// by the tests, by `silt check` and by silt-bench.
#pragma once

#include <string>
#include <vector>

#include "attn_res/problem.hpp"
#include "dispatch/operator.hpp"
#include "proof/case_tensor.hpp"
#include "proof/record_launch.hpp"

namespace silt {

struct AttnResCase {
  AttnResCase(const AttnResProblem& problem, uint64_t seed);

  /// Poisons the output, copies everything to the device and keeps what was there before for `verify`.
  Status upload(Device device);
  /// The arguments on the device; valid after `upload`.
  [[nodiscard]] AttnResArgs args() const;
  Status download();
  /// upload, attn_res, download.
  Status run(Device device, const Launch& launch);
  /// Every row against the double-precision reference; prefix and bank bit for bit; nothing else touched.
  [[nodiscard]] Verdict verify() const;

  /// Every tensor by its argument's name, absent ones too.
  std::vector<NamedTensor> tensors();

  AttnResProblem problem;
  float eps = 1e-5F;
  float output_norm_eps = 1e-5F;
  CaseTensor prefix;
  CaseTensor delta;
  CaseTensor blocks;
  CaseTensor norm_weight;
  CaseTensor qk_weight;
  CaseTensor output_norm_weight;
  CaseTensor output;

 private:
  [[nodiscard]] Verdict verify_untouched() const;

  CaseTensor prefix_before_;
  CaseTensor blocks_before_;
  std::vector<std::byte> output_before_;
};

/// The standing table: every call key, sizes, strides, alignments and dtypes.
std::vector<std::string> attn_res_check_lines();
Operator attn_res_operator();

}  // namespace silt
