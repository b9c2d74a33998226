// cpu_avx512bf16: AVX-512 with its BF16 instructions in bf16 products and in the roundings of rows.
#define SILT_SIMD_TARGET SILT_SIMD_AVX512BF16
#include "model/cpu/cpu_parts.hpp"
#include "model/cpu/simd_products.inl.hpp"
#include "model/cpu/simd_rows.inl.hpp"

namespace silt {

const CpuParts& cpu_avx512bf16_parts() {
  static const CpuParts parts = [] {
    namespace products = SILT_SIMD_NAMESPACE::products;
    CpuParts made = cpu_avx512_parts();
    made.name = "cpu_avx512bf16";
    made.features |= SILT_SIMD_FEATURE;
    made.bf16 = products::kernels<bf16, bf16, 6>();
    made.rows = SILT_SIMD_NAMESPACE::rows::kernels();
    return made;
  }();
  return parts;
}

}  // namespace silt
