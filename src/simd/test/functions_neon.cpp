#define SILT_SIMD_TARGET SILT_SIMD_NEON
#include "simd/test/functions.inl.hpp"

namespace silt {
SimdFunctions simd_functions_neon() { return SILT_SIMD_NAMESPACE::test::functions("neon"); }
}  // namespace silt
