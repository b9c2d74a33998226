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

}  // namespace silt::kda
