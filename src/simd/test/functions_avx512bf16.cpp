#define SILT_SIMD_TARGET SILT_SIMD_AVX512BF16
#include "simd/test/functions.inl.hpp"

namespace silt {
SimdFunctions simd_functions_avx512bf16() { return SILT_SIMD_NAMESPACE::test::functions("avx512bf16"); }
}  // namespace silt
