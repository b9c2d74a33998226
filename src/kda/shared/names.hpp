// How the KDA family spells its choices in problem lines.
#pragma once

#include "silt/dtype.hpp"

#include "core/problem_line.hpp"
#include "kda/shared/layout.hpp"

namespace silt::kda {

inline constexpr Named<DType> kFloatNames[] = {{DType::bf16, "bf16"}, {DType::f32, "f32"}};
inline constexpr Named<History> kHistoryNames[] = {{History::sd, "sd"}, {History::ds, "ds"}};
inline constexpr Named<Gate> kGateNames[] = {{Gate::safe, "safe"}, {Gate::softplus, "softplus"}};

template <class V>
void dtype_field(V& visit, std::string_view key, DType& value, DType standard) {
  visit.choice(key, value, standard, std::span<const Named<DType>>(kFloatNames));
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
