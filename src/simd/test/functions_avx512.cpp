#define SILT_SIMD_TARGET SILT_SIMD_AVX512
#include "simd/test/functions.inl.hpp"

namespace silt {
SimdFunctions simd_functions_avx512() { return SILT_SIMD_NAMESPACE::test::functions("avx512"); }
}  // namespace silt
