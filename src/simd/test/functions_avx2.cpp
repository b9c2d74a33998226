#define SILT_SIMD_TARGET SILT_SIMD_AVX2
#include "simd/test/functions.inl.hpp"

namespace silt {
SimdFunctions simd_functions_avx2() { return SILT_SIMD_NAMESPACE::test::functions("avx2"); }
}  // namespace silt
