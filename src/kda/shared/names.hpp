// How the KDA family spells its choices in problem lines.
#pragma once

#include <fmt/format.h>

#include "silt/dtype.hpp"

#include "core/problem_line.hpp"
#include "kda/shared/layout.hpp"

namespace silt::kda {

inline constexpr Named<DType> kFloatNames[] = {{DType::bf16, "bf16"}, {DType::f32, "f32"}};
inline constexpr Named<History> kHistoryNames[] = {{History::sd, "sd"}, {History::ds, "ds"}};
inline constexpr Named<Gate> kGateNames[] = {{Gate::safe, "safe"}, {Gate::softplus, "softplus"}};

inline constexpr Named<Lengths> kLengthsNames[] = {{Lengths::even, "even"}, {Lengths::ragged, "ragged"}};

template <class V>
void dtype_field(V& visit, std::string_view key, DType& value, DType standard) {
  visit.choice(key, value, standard, std::span<const Named<DType>>(kFloatNames));
}

/// Null slot, pool size and padding of a problem line; `rows` counts rows or sequences.
template <class Parser>
void demand_pool(Parser& parser, std::string_view op, int64_t rows, int64_t padded, int64_t null_slot, int64_t slots) {
  parser.demand(null_slot == 0 || null_slot == -1, fmt::format("{}: null: has {}, needs 0 or -1", op, null_slot));
  parser.demand(padded >= 0 && padded <= rows, fmt::format("{}: padded: has {}, needs 0..{}", op, padded, rows));
  const int64_t least = rows - padded + (null_slot == 0 ? 1 : 0);
  parser.demand(slots >= least, fmt::format("{}: slots: has {}, needs at least {} (live rows{})", op, slots, least,
                                            null_slot == 0 ? " and the null slot" : ""));
}

/// n sequences of `each` rows; `rows` of memory.
template <class Parser>
void demand_sequences(Parser& parser, std::string_view op, int64_t n, int64_t each, int64_t rows) {
  parser.demand(n >= 0 && each >= 0 && each == (n > 0 ? rows / n : 0),
                fmt::format("{}: seqs, t: has {}x{}, {}, needs sizes >= 0 and a length of t / seqs, rounded down", op,
                            n, each, rows));
}

template <class Parser>
void demand_gate(Parser& parser, std::string_view op, Gate gate, float lower_bound) {
  parser.demand(
      gate == Gate::softplus ? lower_bound == 0 : lower_bound >= -5 && lower_bound < 0,
      fmt::format("{}: lower_bound: has {}, needs [-5, 0) with gate=safe, 0 with gate=softplus", op, lower_bound));
}

/// The alignment of a problem line: `element` is the largest element that an alignment must fit.
template <class Parser>
void demand_align(Parser& parser, std::string_view op, int64_t align, size_t element) {
  const auto least = static_cast<int64_t>(element);
  parser.demand(
      (align == 2 || align == 4 || align == 8 || align == 16) && align >= least,
      fmt::format("{}: align: has {}, needs 2, 4, 8 or 16 and at least an activation ({})", op, align, least));
}

}  // namespace silt::kda
