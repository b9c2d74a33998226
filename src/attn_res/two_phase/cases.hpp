// Cases of attn_res_partials and attn_res_merge: random tensors from a problem line, a run on any device, and the
// comparison with the oracle. Used by the tests, by `silt check` and by silt-bench.
#pragma once

#include <string>
#include <vector>

#include "attn_res/two_phase/problem.hpp"
#include "dispatch/operator.hpp"
#include "proof/case_tensor.hpp"
#include "proof/record_launch.hpp"

namespace silt {

/// A kernel on bf16 activations may carry the softmax weights of the mix as the sum of two bf16 values, as a matrix
/// unit takes them: half a unit in the last place of eight bits, twice. The bf16 mix is rounded to 2^-9 after that.
constexpr double kAttnResPartialsWeightError = 0x1p-18;

struct AttnResPartialsCase {
  AttnResPartialsCase(const AttnResPartialsProblem& problem, uint64_t seed);

  /// Poisons the outputs, copies everything to the device and keeps what was there before for `verify`.
  Status upload(Device device);
  /// The arguments on the device; valid after `upload`.
  [[nodiscard]] AttnResPartialsArgs args() const;
  Status download();
  /// upload, attn_res_partials, download.
  Status run(Device device, const Launch& launch);
  /// Every row of every query against the double-precision reference; nothing else touched.
  [[nodiscard]] Verdict verify() const;

  /// Every tensor by its argument's name.
  std::vector<NamedTensor> tensors();

  AttnResPartialsProblem problem;
  float eps = 1e-5F;
  CaseTensor blocks;
  CaseTensor norm_weight;
  CaseTensor qk_weight;
  CaseTensor statistics;
  CaseTensor mix;

 private:
  CaseTensor blocks_before_;
  std::vector<std::byte> statistics_before_;
  std::vector<std::byte> mix_before_;
};

struct AttnResMergeCase {
  AttnResMergeCase(const AttnResMergeProblem& problem, uint64_t seed);

  Status upload(Device device);
  [[nodiscard]] AttnResMergeArgs args() const;
  Status download();
  /// upload, attn_res_merge, download.
  Status run(Device device, const Launch& launch);
  /// Every row against the double-precision reference; prefix and slot bit for bit; nothing else touched.
  [[nodiscard]] Verdict verify() const;

  /// Every tensor by its argument's name, absent ones too.
  std::vector<NamedTensor> tensors();

  AttnResMergeProblem problem;
  float eps = 1e-5F;
  float output_norm_eps = 1e-5F;
  CaseTensor prefix;
  CaseTensor delta;
  CaseTensor statistics;
  CaseTensor mix;
  CaseTensor slot;
  CaseTensor norm_weight;
  CaseTensor qk_weight;
  CaseTensor output_norm_weight;
  CaseTensor output;

 private:
  [[nodiscard]] Verdict verify_untouched() const;

  CaseTensor prefix_before_;
  CaseTensor statistics_before_;
  CaseTensor mix_before_;
  std::vector<std::byte> slot_before_;
  std::vector<std::byte> output_before_;
};

/// The standing tables: queries, sizes, strides, alignments and dtypes.
std::vector<std::string> attn_res_partials_check_lines();
std::vector<std::string> attn_res_merge_check_lines();
Operator attn_res_partials_operator();
Operator attn_res_merge_operator();

}  // namespace silt
