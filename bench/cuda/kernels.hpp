// The kernels of bench/cuda/kernels.cu as pointers, so that all host code is compiled by the host compiler.
#pragma once

#include <cuda_runtime.h>

#include "bench/gpu_protocol.hpp"

namespace silt::bench::gpu {

using SpinKernel = void (*)(long long nanoseconds);
template <class T>
using FillKernel = void (*)(T* data, int64_t count, float low, float high, uint64_t seed);
using EmptyKernel = void (*)(unsigned* never);
using ReadKernel = void (*)(const uint4* source, int64_t count, unsigned* never);
using RowKernel = void (*)(RowMover mover, int parts, bool late);
using SweepKernel = void (*)(SweepMover mover, int parts, bool late);
using SlotKernel = void (*)(SlotMover mover, int pieces);

struct RowVariant {
  const char* name = nullptr;
  int parts = 1;  ///< blocks per token
  RowKernel kernel = nullptr;
};
struct SweepVariant {
  const char* name = nullptr;
  int parts = 1;  ///< blocks per token
  SweepKernel kernel = nullptr;
};
struct SlotVariant {
  const char* name = nullptr;
  int threads = 0;
  int vectors = 0;  ///< of 16 bytes per thread
  SlotKernel kernel = nullptr;
};

SpinKernel spin_kernel();
FillKernel<float> fill_f32_kernel();
FillKernel<uint16_t> fill_bf16_kernel();
EmptyKernel empty_kernel();
ReadKernel read_kernel();
RowVariant row_variant(int variant, int rows);
SweepVariant sweep_variant(int variant, int rows);
SlotVariant slot_variant(int variant);

}  // namespace silt::bench::gpu
