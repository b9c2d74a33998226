// The checked problem of attn_res as a value: what predicates, costs and plans look at. Prints and parses itself.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "silt/attn_res.hpp"

#include "core/problem_line.hpp"

namespace silt {

struct AttnResProblem {
  int64_t t = 0;      ///< tokens
  int64_t n = 0;      ///< valid bank blocks
  int64_t d = 0;      ///< hidden size
  bool delta = true;  ///< delta is given
  bool norm = true;   ///< output norm
  int64_t write = -1;
  DType dtype = DType::bf16;  ///< activations
  int64_t slots = 0;          ///< R
  int64_t prefix_stride = 0;
  int64_t delta_stride = 0;
  int64_t block_token_stride = 0;
  int64_t block_slot_stride = 0;
  int64_t output_stride = 0;
  int64_t align = 16;   ///< the largest power of two, at most 16, that divides every activation address and row step
  int64_t stable = -1;  ///< stable_blocks as the caller gave it

  /// The smallest bank that holds the blocks and the written slot.
  [[nodiscard]] int64_t least_slots() const { return std::max(n, write + 1); }

  /// Leading slots that a late launch may read before its dependency wait: what the caller says, else every source but
  /// the slot that a decoder wrote last.
  [[nodiscard]] int64_t stable_rows() const { return stable >= 0 ? stable : std::max<int64_t>(n - 1, 0); }

  template <class V>
  void fields(V& visit) {
    static constexpr Named<DType> kDTypes[] = {{DType::bf16, "bf16"}, {DType::f32, "f32"}};
    visit.size("t", t);
    visit.size("n", n);
    visit.size("d", d);
    visit.flag("delta", delta, true);
    visit.flag("norm", norm, true);
    visit.value("write", write, -1);
    visit.choice("dtype", dtype, DType::bf16, std::span<const Named<DType>>(kDTypes));
    visit.value("r", slots, least_slots());
    visit.value("prefix_stride", prefix_stride, d);
    visit.value("delta_stride", delta_stride, delta ? d : 0);
    visit.value("bank_token_stride", block_token_stride, slots * d);
    visit.value("bank_slot_stride", block_slot_stride, slots == 0 ? 0 : d);
    visit.value("output_stride", output_stride, d);
    visit.value("align", align, 16);
    visit.value("stable", stable, -1);
  }

  [[nodiscard]] std::string line() const;
  static Status parse(const ProblemLine& line, AttnResProblem* problem);
};

/// Views to problem. The status names argument, what it has and what it needs.
Status check(const AttnResArgs& args, AttnResProblem* problem);

/// Least bytes that must move (contract.md, bytes) and floating-point operations.
int64_t bytes(const AttnResProblem& problem);
int64_t flops(const AttnResProblem& problem);

}  // namespace silt
