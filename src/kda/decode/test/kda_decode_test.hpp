// What the tests of kda_decode share.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "kda/decode/cases.hpp"
#include "kda/shared/layout.hpp"
#include "proof/room_test.hpp"

namespace silt {

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr int64_t kDim = kda::kDim;

inline constexpr auto problem_of = parsed<KdaDecodeProblem>;

using EveryKernel = EveryKernelOf<KdaDecodeCase>;

/// Copies `count` logical elements.
inline void copy(const CaseTensor& from, int64_t from_index, CaseTensor& to, int64_t to_index, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to.set(to_index + i, from.get(from_index + i));
}

inline std::string kernel_name(const testing::TestParamInfo<KernelHere>& param) { return param.param.kernel; }

}  // namespace silt
