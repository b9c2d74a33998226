// The vocabulary of one SIMD target behind plain functions, so that one test walks all targets of this CPU.
#pragma once

#include <string_view>
#include <vector>

#include "silt/device.hpp"
#include "silt/dtype.hpp"

namespace silt {

struct SimdFunctions {
  std::string_view name;
  CpuFeature feature;
  // Sixteen fp32 to sixteen fp32.
  void (*exp)(const float* in, float* out);
  void (*sigmoid)(const float* in, float* out);
  void (*silu)(const float* in, float* out);
  void (*softplus)(const float* in, float* out);
  void (*silu_softplus)(const float* in, float* out);
  // The same for `together` times sixteen at once.
  int together;
  void (*several)(const float* in, float* out);
  float (*sum)(const float* lanes);
  // 4 * 16 lanes to four sums.
  void (*sums)(const float* lanes, float* out);
  // 32 columns, through a Pair.
  void (*widen)(const bf16* in, float* out);
  void (*columns_bf16)(const bf16* in, float* out);
  void (*columns_f32)(const float* in, float* out);
  void (*narrow)(const float* in, bf16* out);
  void (*narrow_widened)(const float* in, bf16* out);  // a NaN has a clear lower half
  void (*stream)(const float* in, bf16* out);
  void (*copy_f32)(const float* in, float* out);
  // 32 columns of activations times bf16 weights, element by element.
  void (*weigh_bf16)(const bf16* in, const bf16* weights, bf16* out);
  void (*weigh_f32)(const float* in, const bf16* weights, float* out);
  // 32 columns in their order, rounded to the activation type by way of pair_of_columns.
  void (*pair_bf16)(const float* in, bf16* out);
  void (*pair_f32)(const float* in, float* out);
  // sums[16] += squares of 32 columns.
  void (*add_squares)(const bf16* in, float* sums);
};

/// The targets this CPU can run.
std::vector<SimdFunctions> simd_targets_here();

}  // namespace silt
