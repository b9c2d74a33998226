// The checked problem of rms_norm_gated as a value: what predicates, costs and plans look at. Prints and parses itself.
#pragma once

#include <cstdint>
#include <string>

#include "silt/rms_norm_gated.hpp"

#include "core/problem_line.hpp"
#include "kda/shared/layout.hpp"
#include "kda/shared/names.hpp"

namespace silt {

struct RmsNormGatedProblem {
  int64_t t = 0;  ///< rows
  int64_t h = 0;  ///< heads of 128
  DType x = DType::bf16;
  DType gate = DType::bf16;
  DType output = DType::bf16;
  GateActivation activation = GateActivation::sigmoid;
  int64_t x_stride = 0;
  int64_t gate_stride = 0;
  int64_t output_stride = 0;
  /// The largest power of two, at most 16, that divides every address and row step.
  int64_t align = 16;

  [[nodiscard]] int64_t p() const { return kda::kDim * h; }

  template <class V>
  void fields(V& visit) {
    static constexpr Named<GateActivation> kActivations[] = {{GateActivation::sigmoid, "sigmoid"},
                                                             {GateActivation::silu, "silu"}};
    visit.size("t", t);
    visit.size("h", h);
    kda::dtype_field(visit, "x", x, DType::bf16);
    kda::dtype_field(visit, "gate", gate, DType::bf16);
    kda::dtype_field(visit, "output", output, DType::bf16);
    visit.choice("act", activation, GateActivation::sigmoid, std::span<const Named<GateActivation>>(kActivations));
    visit.value("x_stride", x_stride, p());
    visit.value("gate_stride", gate_stride, p());
    visit.value("output_stride", output_stride, p());
    visit.value("align", align, 16);
  }

  [[nodiscard]] std::string line() const;
  static Status parse(const ProblemLine& line, RmsNormGatedProblem* problem);
};

/// Views to problem. The status names argument, what it has and what it needs.
Status check(const RmsNormGatedArgs& args, RmsNormGatedProblem* problem);

/// Least bytes that must move (contract.md, bytes) and floating-point operations.
int64_t bytes(const RmsNormGatedProblem& problem);
int64_t flops(const RmsNormGatedProblem& problem);

}  // namespace silt
