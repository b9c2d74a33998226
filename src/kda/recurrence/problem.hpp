// The checked problem of kda_recurrence as a value: what predicates, costs and plans look at. Prints and parses itself.
#pragma once

#include <cstdint>
#include <string>

#include "silt/kda_recurrence.hpp"

#include "core/problem_line.hpp"
#include "kda/shared/layout.hpp"
#include "kda/shared/names.hpp"

namespace silt {

struct KdaRecurrenceProblem {
  int64_t n = 0;       ///< sequences
  int64_t length = 0;  ///< tokens of each: t / n, rounded down
  int64_t t = 0;       ///< rows of memory
  int64_t h = 0;       ///< heads of 128
  DType state = DType::f32;
  DType qkv = DType::bf16;    ///< q, k, v
  DType dtype = DType::bf16;  ///< raw_gate, raw_beta
  DType output = DType::bf16;
  kda::Gate gate = kda::Gate::safe;
  float lower_bound = -5.0F;                  ///< 0 with the softplus gate, which has none
  bool offsets = true;                        ///< offsets are given; else one token each
  kda::Lengths lengths = kda::Lengths::even;  ///< of a case; a checked call says even, it does not know
  int64_t null_slot = 0;
  int64_t slots = 0;
  int64_t padded = 0;  ///< sequences of a case that are padding; a checked call says 0, it does not know
  int64_t q_stride = 0;
  int64_t k_stride = 0;
  int64_t v_stride = 0;
  int64_t gate_stride = 0;
  int64_t beta_stride = 0;
  int64_t output_stride = 0;
  int64_t state_slot_stride = 0;
  /// The largest power of two, at most 16, that divides every address and row or slot step, raw_beta, A_log, offsets
  /// and state_indices aside: those are read one element at a time.
  int64_t align = 16;

  [[nodiscard]] int64_t p() const { return kda::kDim * h; }

  template <class V>
  void fields(V& visit) {
    visit.product("seqs", n, length);
    visit.size("h", h);
    visit.value("t", t, n * length);
    kda::dtype_field(visit, "state", state, DType::f32);
    kda::dtype_field(visit, "qkv", qkv, DType::bf16);
    kda::dtype_field(visit, "dtype", dtype, DType::bf16);
    kda::dtype_field(visit, "output", output, qkv);
    visit.choice("gate", gate, kda::Gate::safe, std::span<const Named<kda::Gate>>(kda::kGateNames));
    visit.real("lower_bound", lower_bound, gate == kda::Gate::safe ? -5.0F : 0.0F);
    visit.flag("offsets", offsets, true);
    visit.choice("lengths", lengths, kda::Lengths::even, std::span<const Named<kda::Lengths>>(kda::kLengthsNames));
    visit.value("null", null_slot, 0);
    visit.value("slots", slots, n + 1);
    visit.value("padded", padded, 0);
    visit.value("q_stride", q_stride, p());
    visit.value("k_stride", k_stride, p());
    visit.value("v_stride", v_stride, p());
    visit.value("gate_stride", gate_stride, p());
    visit.value("beta_stride", beta_stride, h);
    visit.value("output_stride", output_stride, p());
    visit.value("state_slot_stride", state_slot_stride, p() * kda::kDim);
    visit.value("align", align, 16);
  }

  [[nodiscard]] std::string line() const;
  static Status parse(const ProblemLine& line, KdaRecurrenceProblem* problem);
};

/// Views to problem. The status names argument, what it has and what it needs.
Status check(const KdaRecurrenceArgs& args, KdaRecurrenceProblem* problem);

/// Least bytes that must move (contract.md, bytes) and floating-point operations.
int64_t bytes(const KdaRecurrenceProblem& problem);
int64_t flops(const KdaRecurrenceProblem& problem);

}  // namespace silt
