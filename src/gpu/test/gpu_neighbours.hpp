// Kernels that stand around those of an operator in tests: producers and consumers of its tensors, and load on the GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace silt::test {

struct Neighbour {
  bool dependent = false;      ///< launched with the programmatic attribute
  bool trigger_early = false;  ///< lets its dependent start before it has written anything
  int microseconds = 0;        ///< how long it sleeps before it writes
};

/// target[i] = a bf16 of magnitude 0.5..1 made of source[i]. Waits for its predecessor before it reads.
cudaError_t remix(const uint16_t* source, uint16_t* target, int64_t count, const Neighbour& how, cudaStream_t stream);

/// Reads and writes `bytes` of memory over and over, for about that many microseconds.
cudaError_t keep_busy(void* memory, size_t bytes, int microseconds, cudaStream_t stream);

}  // namespace silt::test
