#include "gpu/pdl.hpp"
#include "gpu/test/gpu_neighbours.hpp"

namespace silt::test {
namespace {

__device__ uint64_t now() {
  uint64_t nanoseconds;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
  return nanoseconds;
}

__device__ void sleep_for(int microseconds) {
  const uint64_t end = now() + static_cast<uint64_t>(microseconds) * 1000;
  while (now() < end) __nanosleep(200);
}

__global__ void remix_kernel(const uint16_t* source, uint16_t* target, int64_t count, Neighbour how) {
  if (how.trigger_early) gpu::trigger_dependents();
  gpu::dependency_wait();
  sleep_for(how.microseconds);
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count; i += int64_t{gridDim.x} * blockDim.x) {
    target[i] = static_cast<uint16_t>((source[i] & 0x807fu) | 0x3f00u);
  }
  if (!how.trigger_early) gpu::trigger_dependents();
}

__global__ void busy_kernel(uint4* memory, size_t count, int microseconds) {
  const uint64_t end = now() + static_cast<uint64_t>(microseconds) * 1000;
  const size_t step = size_t{gridDim.x} * blockDim.x;
  while (now() < end) {
    for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) memory[i].x += 1;
  }
}

}  // namespace

cudaError_t remix(const uint16_t* source, uint16_t* target, int64_t count, const Neighbour& how, cudaStream_t stream) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(24);
  config.blockDim = dim3(256);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = how.dependent ? 1 : 0;
  return cudaLaunchKernelEx(&config, remix_kernel, source, target, count, how);
}

cudaError_t keep_busy(void* memory, size_t bytes, int microseconds, cudaStream_t stream) {
  busy_kernel<<<64, 256, 0, stream>>>(static_cast<uint4*>(memory), bytes / sizeof(uint4), microseconds);
  return cudaGetLastError();
}

}  // namespace silt::test
