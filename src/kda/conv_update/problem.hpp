// The checked problem of causal_conv1d_update as a value: what predicates, costs and plans look at. Prints and parses
// itself.
#pragma once

#include <cstdint>
#include <string>

#include "silt/causal_conv1d_update.hpp"

#include "core/problem_line.hpp"
#include "kda/shared/layout.hpp"
#include "kda/shared/names.hpp"

namespace silt {

struct CausalConv1dUpdateProblem {
  int64_t b = 0;              ///< sequences
  int64_t n = 1;              ///< tokens of each
  int64_t c = 0;              ///< channels, a multiple of 3
  DType dtype = DType::bf16;  ///< x and conv_state
  DType output = DType::bf16;
  kda::History layout = kda::History::sd;
  bool bias = false;
  int64_t null_slot = 0;
  int64_t slots = 0;
  int64_t padded = 0;  ///< sequences of a case that are padding; a checked call says 0, it does not know
  int64_t x_token_stride = 0;
  int64_t x_stride = 0;
  int64_t output_token_stride = 0;
  int64_t output_stride = 0;
  int64_t conv_slot_stride = 0;
  /// The largest power of two, at most 16, that divides every address and sequence, token or slot step.
  int64_t align = 16;

  template <class V>
  void fields(V& visit) {
    visit.size("b", b);
    visit.value("n", n, 1);
    visit.size("c", c);
    kda::dtype_field(visit, "dtype", dtype, DType::bf16);
    kda::dtype_field(visit, "output", output, dtype);
    visit.choice("layout", layout, kda::History::sd, std::span<const Named<kda::History>>(kda::kHistoryNames));
    visit.flag("bias", bias, false);
    visit.value("null", null_slot, 0);
    visit.value("slots", slots, b + 1);
    visit.value("padded", padded, 0);
    visit.value("x_token_stride", x_token_stride, c);
    visit.value("x_stride", x_stride, n * x_token_stride);
    visit.value("output_token_stride", output_token_stride, c);
    visit.value("output_stride", output_stride, n * output_token_stride);
    visit.value("conv_slot_stride", conv_slot_stride, kda::kHistory * c);
    visit.value("align", align, 16);
  }

  [[nodiscard]] std::string line() const;
  static Status parse(const ProblemLine& line, CausalConv1dUpdateProblem* problem);
};

/// Views to problem. The status names argument, what it has and what it needs.
Status check(const CausalConv1dUpdateArgs& args, CausalConv1dUpdateProblem* problem);

/// Least bytes that must move (contract.md, bytes) and floating-point operations.
int64_t bytes(const CausalConv1dUpdateProblem& problem);
int64_t flops(const CausalConv1dUpdateProblem& problem);

}  // namespace silt
