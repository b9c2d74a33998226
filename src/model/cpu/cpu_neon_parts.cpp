// cpu_neon: the decoder's parts for this instruction set.
#define SILT_SIMD_TARGET SILT_SIMD_NEON
#include "model/cpu/cpu_parts.hpp"
#include "model/cpu/simd_attention.inl.hpp"
#include "model/cpu/simd_products.inl.hpp"
#include "model/cpu/simd_rows.inl.hpp"

namespace silt {

const CpuParts& cpu_neon_parts() {
  static const CpuParts parts = [] {
    namespace products = SILT_SIMD_NAMESPACE::products;
    CpuParts made{.name = "cpu_neon", .features = SILT_SIMD_FEATURE};
    made.narrow = products::kernels<float, bf16, 4>();
    made.f32 = products::kernels<float, float, 4>();
    made.bf16 = made.narrow;
    made.rows = SILT_SIMD_NAMESPACE::rows::kernels();
    made.attention = SILT_SIMD_NAMESPACE::attention::kernels();
    return made;
  }();
  return parts;
}

}  // namespace silt
