// The checked problem of kda_prefill as a value: what predicates, costs and plans look at. Prints and parses itself.
#pragma once

#include <cstdint>
#include <string>

#include "silt/kda_prefill.hpp"

#include "core/problem_line.hpp"
#include "kda/shared/layout.hpp"
#include "kda/shared/names.hpp"

namespace silt {

/// The most tokens of a sequence that a kernel may take together: what the tolerance grants (contract.md).
constexpr int64_t kKdaPrefillTogether = 16;
/// How far such a kernel's results may be from a token loop's, relative to a head's output or a row of its state.
constexpr double kKdaPrefillApart = 1e-4;

struct KdaPrefillProblem {
  int64_t n = 0;              ///< sequences
  int64_t length = 0;         ///< tokens of each: t / n, rounded down
  int64_t t = 0;              ///< rows of memory
  int64_t h = 0;              ///< heads of 128
  DType state = DType::f32;   ///< of the recurrent state
  DType dtype = DType::bf16;  ///< activations: x, conv_state, gates, beta, output
  kda::History layout = kda::History::sd;
  kda::Gate gate = kda::Gate::safe;
  float lower_bound = -5.0F;                  ///< 0 with the softplus gate, which has none
  bool norm = true;                           ///< output norm and output gate
  bool bias = false;                          ///< conv_bias is given
  bool initial = false;                       ///< has_initial_state is given
  kda::Lengths lengths = kda::Lengths::even;  ///< of a case; a checked call says even, it does not know
  int64_t null_slot = 0;
  int64_t slots = 0;
  int64_t padded = 0;  ///< sequences of a case that are padding; a checked call says 0, it does not know
  int64_t x_stride = 0;
  int64_t gate_stride = 0;
  int64_t beta_stride = 0;
  int64_t output_gate_stride = 0;
  int64_t output_stride = 0;
  int64_t conv_slot_stride = 0;
  int64_t state_slot_stride = 0;
  /// The largest power of two, at most 16, that divides every address and row or slot step, raw_beta, A_log and the
  /// int32 tensors aside: those are read one element at a time.
  int64_t align = 16;

  /// Channels of one part: 128 * h.
  [[nodiscard]] int64_t p() const { return kda::kDim * h; }

  template <class V>
  void fields(V& visit) {
    visit.product("seqs", n, length);
    visit.size("h", h);
    visit.value("t", t, n * length);
    kda::dtype_field(visit, "state", state, DType::f32);
    kda::dtype_field(visit, "dtype", dtype, DType::bf16);
    visit.choice("layout", layout, kda::History::sd, std::span<const Named<kda::History>>(kda::kHistoryNames));
    visit.choice("gate", gate, kda::Gate::safe, std::span<const Named<kda::Gate>>(kda::kGateNames));
    visit.real("lower_bound", lower_bound, gate == kda::Gate::safe ? -5.0F : 0.0F);
    visit.flag("norm", norm, true);
    visit.flag("bias", bias, false);
    visit.flag("initial", initial, false);
    visit.choice("lengths", lengths, kda::Lengths::even, std::span<const Named<kda::Lengths>>(kda::kLengthsNames));
    visit.value("null", null_slot, 0);
    visit.value("slots", slots, n + 1);
    visit.value("padded", padded, 0);
    visit.value("x_stride", x_stride, kda::kParts * p());
    visit.value("gate_stride", gate_stride, p());
    visit.value("beta_stride", beta_stride, h);
    visit.value("output_gate_stride", output_gate_stride, norm ? p() : 0);
    visit.value("output_stride", output_stride, p());
    visit.value("conv_slot_stride", conv_slot_stride, kda::kHistory * kda::kParts * p());
    visit.value("state_slot_stride", state_slot_stride, p() * kda::kDim);
    visit.value("align", align, 16);
  }

  [[nodiscard]] std::string line() const;
  static Status parse(const ProblemLine& line, KdaPrefillProblem* problem);
};

/// Views to problem. The status names argument, what it has and what it needs.
Status check(const KdaPrefillArgs& args, KdaPrefillProblem* problem);

/// Least bytes that must move (contract.md, bytes) and floating-point operations.
int64_t bytes(const KdaPrefillProblem& problem);
int64_t flops(const KdaPrefillProblem& problem);

}  // namespace silt
