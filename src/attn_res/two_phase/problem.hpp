// The checked problems of attn_res_partials and attn_res_merge as values. They print and parse themselves.
#pragma once

#include <cstdint>
#include <string>

#include "silt/attn_res_two_phase.hpp"

#include "core/problem_line.hpp"

namespace silt {

inline constexpr Named<DType> kTwoPhaseDTypes[] = {{DType::bf16, "bf16"}, {DType::f32, "f32"}};

struct AttnResPartialsProblem {
  int64_t t = 0;                ///< tokens
  int64_t q = 0;                ///< queries
  int64_t n = 0;                ///< valid bank blocks
  int64_t d = 0;                ///< hidden size
  DType dtype = DType::bf16;    ///< activations
  DType partial = DType::bf16;  ///< mix
  int64_t slots = 0;            ///< R
  int64_t block_token_stride = 0;
  int64_t block_slot_stride = 0;
  int64_t norm_weight_stride = 0;
  int64_t qk_weight_stride = 0;
  int64_t statistics_query_stride = 0;
  int64_t statistics_token_stride = 0;
  int64_t mix_query_stride = 0;
  int64_t mix_token_stride = 0;
  /// The largest power of two, at most 16, that divides every address and row step but those of the statistics.
  int64_t align = 16;
  int64_t stable = -1;  ///< stable_blocks as the caller gave it

  /// Leading slots that a late launch may read before its dependency wait.
  [[nodiscard]] int64_t stable_rows() const { return stable >= 0 ? stable : n - 1; }

  template <class V>
  void fields(V& visit) {
    visit.size("t", t);
    visit.size("q", q);
    visit.size("n", n);
    visit.size("d", d);
    visit.choice("dtype", dtype, DType::bf16, std::span<const Named<DType>>(kTwoPhaseDTypes));
    visit.choice("partial", partial, dtype, std::span<const Named<DType>>(kTwoPhaseDTypes));
    visit.value("r", slots, n);
    visit.value("bank_token_stride", block_token_stride, slots * d);
    visit.value("bank_slot_stride", block_slot_stride, d);
    visit.value("norm_stride", norm_weight_stride, d);
    visit.value("qk_stride", qk_weight_stride, d);
    visit.value("statistics_query_stride", statistics_query_stride, 2 * t);
    visit.value("statistics_token_stride", statistics_token_stride, 2);
    visit.value("mix_query_stride", mix_query_stride, t * d);
    visit.value("mix_token_stride", mix_token_stride, d);
    visit.value("align", align, 16);
    visit.value("stable", stable, -1);
  }

  [[nodiscard]] std::string line() const;
  static Status parse(const ProblemLine& line, AttnResPartialsProblem* problem);
};

struct AttnResMergeProblem {
  int64_t t = 0;                ///< tokens
  int64_t d = 0;                ///< hidden size
  bool delta = true;            ///< delta is given
  bool norm = true;             ///< output norm
  bool write = false;           ///< slot is given
  DType dtype = DType::bf16;    ///< activations
  DType partial = DType::bf16;  ///< mix
  int64_t prefix_stride = 0;
  int64_t delta_stride = 0;
  int64_t statistics_stride = 0;
  int64_t mix_stride = 0;
  int64_t slot_stride = 0;
  int64_t output_stride = 0;
  int64_t align = 16;   ///< as in AttnResPartialsProblem
  bool stable = false;  ///< stable_partials

  template <class V>
  void fields(V& visit) {
    visit.size("t", t);
    visit.size("d", d);
    visit.flag("delta", delta, true);
    visit.flag("norm", norm, true);
    visit.flag("write", write, false);
    visit.choice("dtype", dtype, DType::bf16, std::span<const Named<DType>>(kTwoPhaseDTypes));
    visit.choice("partial", partial, dtype, std::span<const Named<DType>>(kTwoPhaseDTypes));
    visit.value("prefix_stride", prefix_stride, d);
    visit.value("delta_stride", delta_stride, delta ? d : 0);
    visit.value("statistics_stride", statistics_stride, 2);
    visit.value("mix_stride", mix_stride, d);
    visit.value("slot_stride", slot_stride, write ? d : 0);
    visit.value("output_stride", output_stride, d);
    visit.value("align", align, 16);
    visit.flag("stable", stable, false);
  }

  [[nodiscard]] std::string line() const;
  static Status parse(const ProblemLine& line, AttnResMergeProblem* problem);
};

/// Views to problem. The status names argument, what it has and what it needs.
Status check(const AttnResPartialsArgs& args, AttnResPartialsProblem* problem);
Status check(const AttnResMergeArgs& args, AttnResMergeProblem* problem);

/// Least bytes that must move (contract.md, bytes) and floating-point operations.
int64_t bytes(const AttnResPartialsProblem& problem);
int64_t flops(const AttnResPartialsProblem& problem);
int64_t bytes(const AttnResMergeProblem& problem);
int64_t flops(const AttnResMergeProblem& problem);

}  // namespace silt
