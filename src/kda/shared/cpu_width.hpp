// How wide the portable steps are: four floats at a time, which every target of GCC and clang has; or one, for the
// scalar build that silt-bench compares the SIMD kernels with (bench/CMakeLists.txt), in a namespace of its own.
#pragma once

#include <cstdint>

#ifdef SILT_SCALAR
#define SILT_KDA_CPU cpu::inline scalar
#else
#define SILT_KDA_CPU cpu
#endif

namespace silt::kda::SILT_KDA_CPU {

#ifdef SILT_SCALAR
constexpr int64_t kQuad = 1;
#else
constexpr int64_t kQuad = 4;
#endif

}  // namespace silt::kda::SILT_KDA_CPU
