// What: graphs of launches, timed by events, and memory filled with random numbers.
//
// Method: a sample is one replay between two events on a stream of its own. A kernel that spins for 60 us stands in front
// of the first event, so that the replay is already queued when the event is reached and the host's launch costs nothing.
#include <fstream>
#include <utility>

#include "bench/cuda/cuda_status.hpp"
#include "bench/gpu_protocol.hpp"

namespace silt::bench::gpu {
namespace {

constexpr long long kSpinNanoseconds = 60000;

__global__ void bench_spin(long long nanoseconds) {
  long long start = 0;
  long long now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do {
    __nanosleep(500);
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - start < nanoseconds);
}

__device__ float uniform(uint64_t seed, uint64_t index, float low, float high) {
  uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15ULL;  // splitmix64, as proof/random.hpp
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  z ^= z >> 31;
  return low + (high - low) * static_cast<float>(z >> 40) * 0x1p-24F;
}

template <class T>
__global__ void bench_fill(T* data, int64_t count, float low, float high, uint64_t seed) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const float value = uniform(seed, static_cast<uint64_t>(i), low, high);
    if constexpr (sizeof(T) == 4) {
      data[i] = value;
    } else {
      const unsigned bits = __float_as_uint(value);  // no NaN here: nearest even in integers
      data[i] = static_cast<T>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
    }
  }
}

/// Stream and events of one series, released with it.
struct Timer {
  Timer() = default;
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer() {
    if (start != nullptr) cudaEventDestroy(start);
    if (stop != nullptr) cudaEventDestroy(stop);
    if (stream != nullptr) cudaStreamDestroy(stream);
  }
  Status make(Device device) {
    index = device.index;
    SILT_CUDA_TRY(cudaSetDevice(index));
    SILT_CUDA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    SILT_CUDA_TRY(cudaEventCreate(&start));
    return cuda_status("cudaEventCreate", cudaEventCreate(&stop));
  }
  Status finish(int64_t launches, double* us) const {
    SILT_CUDA_TRY(cudaEventRecord(stop, stream));
    SILT_CUDA_TRY(cudaEventSynchronize(stop));
    float milliseconds = 0;
    SILT_CUDA_TRY(cudaEventElapsedTime(&milliseconds, start, stop));
    *us = static_cast<double>(milliseconds) * 1e3 / static_cast<double>(launches);
    return {};
  }

  int index = 0;
  cudaStream_t stream = nullptr;
  cudaEvent_t start = nullptr;
  cudaEvent_t stop = nullptr;
};

Status launch_all(int64_t launches, LaunchSeries launch, void* stream) {
  for (int64_t i = 0; i < launches; ++i) SILT_BENCH_TRY(launch(i, stream));
  return {};
}

class GraphSeries : public Series {
 public:
  GraphSeries() = default;
  GraphSeries(const GraphSeries&) = delete;
  GraphSeries& operator=(const GraphSeries&) = delete;
  ~GraphSeries() override {
    if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
  }

  Status make(Device device, int64_t launches, LaunchSeries launch) {
    launches_ = launches;
    SILT_BENCH_TRY(timer_.make(device));
    SILT_CUDA_TRY(cudaStreamBeginCapture(timer_.stream, cudaStreamCaptureModeThreadLocal));
    const Status launched = launch_all(launches, launch, timer_.stream);
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(timer_.stream, &graph);
    const cudaError_t made = ended == cudaSuccess ? cudaGraphInstantiate(&graph_, graph, 0) : ended;
    if (graph != nullptr) cudaGraphDestroy(graph);
    SILT_BENCH_TRY(launched);  // it says more than the capture that it broke
    SILT_BENCH_TRY(cuda_status("graph capture", made));
    double us = 0;
    return sample(&us);
  }

  Status sample(double* us) override {
    SILT_CUDA_TRY(cudaSetDevice(timer_.index));
    bench_spin<<<1, 1, 0, timer_.stream>>>(kSpinNanoseconds);
    SILT_CUDA_TRY(cudaEventRecord(timer_.start, timer_.stream));
    SILT_CUDA_TRY(cudaGraphLaunch(graph_, timer_.stream));
    return timer_.finish(launches_, us);
  }

 private:
  Timer timer_;
  int64_t launches_ = 0;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace

Versions versions() {
  Versions found;
  int driver = 0;
  cudaDriverGetVersion(&driver);
  found.driver = "CUDA " + std::to_string(driver / 1000) + "." + std::to_string(driver % 1000 / 10);
  std::ifstream file("/proc/driver/nvidia/version");
  std::string word;
  while (file >> word) {  // "NVRM version: ... Kernel Module  580.159.04  Release Build ..."
    if (word.find_first_not_of("0123456789.") != std::string::npos || word.find('.') == std::string::npos) continue;
    found.driver += " (" + word + ")";
    break;
  }
  found.toolkit = "CUDA " + std::to_string(__CUDACC_VER_MAJOR__) + "." + std::to_string(__CUDACC_VER_MINOR__) + "." +
                  std::to_string(__CUDACC_VER_BUILD__);
  return found;
}

Status free_memory(Device device, int64_t* bytes) {
  SILT_CUDA_TRY(cudaSetDevice(device.index));
  size_t free = 0;
  size_t total = 0;
  SILT_CUDA_TRY(cudaMemGetInfo(&free, &total));
  *bytes = static_cast<int64_t>(free);
  return {};
}

Status fill_uniform(Device device, void* data, DType dtype, int64_t count, float low, float high, uint64_t seed) {
  SILT_CUDA_TRY(cudaSetDevice(device.index));
  constexpr int kBlocks = 2048;
  constexpr int kThreads = 256;
  if (dtype == DType::bf16) {
    bench_fill<<<kBlocks, kThreads>>>(static_cast<uint16_t*>(data), count, low, high, seed);
  } else {
    bench_fill<<<kBlocks, kThreads>>>(static_cast<float*>(data), count, low, high, seed);
  }
  SILT_CUDA_TRY(cudaGetLastError());
  return cuda_status("cudaDeviceSynchronize", cudaDeviceSynchronize());
}

Status Series::capture(Device device, int64_t launches, LaunchSeries launch, std::unique_ptr<Series>* series) {
  auto made = std::make_unique<GraphSeries>();
  SILT_BENCH_TRY(made->make(device, launches, launch));
  *series = std::move(made);
  return {};
}

Status sample_eager(Device device, int64_t launches, LaunchSeries launch, double* us) {
  Timer timer;
  SILT_BENCH_TRY(timer.make(device));
  SILT_CUDA_TRY(cudaEventRecord(timer.start, timer.stream));
  SILT_BENCH_TRY(launch_all(launches, launch, timer.stream));
  return timer.finish(launches, us);
}

}  // namespace silt::bench::gpu
