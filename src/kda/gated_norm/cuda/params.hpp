// What the CUDA kernel of this room takes.
#pragma once

#include <cstdint>

namespace silt::rms_norm_gated_cuda {

/// bf16 tensors are seen as their bits. Strides are in elements.
struct Params {
  const void* x = nullptr;
  const uint16_t* gate = nullptr;
  const float* weight = nullptr;
  void* output = nullptr;
  int64_t x_stride = 0;
  int64_t gate_stride = 0;
  int64_t output_stride = 0;
  uint32_t items = 0;  // rows * heads
  uint32_t heads = 0;
  float eps = 0;
  bool silu = false;
};

constexpr int kThreads = 256;
constexpr int kItemsPerBlock = kThreads / 32;

using Kernel = void (*)(Params);
/// `aligned`: four neighbours are one access in every tensor.
Kernel sm80_rows_kernel(bool x_is_f32, bool output_is_f32, bool aligned);

}  // namespace silt::rms_norm_gated_cuda
