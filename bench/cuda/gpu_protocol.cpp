// What: graphs of launches, timed by events, memory filled with random numbers, and the launches of the ceilings.
//
// Method: a sample is one replay between two events on a stream of its own. A kernel that spins for 60 us stands in
// front of the first event, so that the replay is already queued when the event is reached and the host's launch costs
// nothing.
#include <algorithm>
#include <fstream>
#include <utility>

#include "bench/cuda/cuda_status.hpp"
#include "bench/cuda/kernels.hpp"
#include "device/facts.hpp"
#include "gpu/launch.hpp"

namespace silt::bench::gpu {
namespace {

constexpr long long kSpinNanoseconds = 60000;

Status shape_of(int64_t blocks, int threads, Device device, const Launch& launch, silt::gpu::LaunchShape* shape) {
  const DeviceFacts* facts = nullptr;
  SILT_TRY(facts_of(device, &facts));
  shape->grid = blocks;
  shape->block = threads;
  shape->dependent = launch.pdl != Pdl::off && facts->arch_number >= 90;
  return {};
}

template <class... Parameters>
Status launch_kernel(const char* name, void (*kernel)(Parameters...), int64_t blocks, int threads, Device device,
                     const Launch& launch, Parameters... parameters) {
  silt::gpu::LaunchShape shape;
  SILT_TRY(shape_of(blocks, threads, device, launch, &shape));
  return silt::gpu::launch({"bench", name}, kernel, shape, device, launch, parameters...);
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
  Status make(Device where) {
    device = where;
    SILT_CUDA_TRY(cudaSetDevice(device.index));
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

  Device device{};
  cudaStream_t stream = nullptr;
  cudaEvent_t start = nullptr;
  cudaEvent_t stop = nullptr;
};

Status launch_all(int64_t launches, LaunchSeries launch, void* stream) {
  for (int64_t i = 0; i < launches; ++i) SILT_TRY(launch(i, stream));
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
    SILT_TRY(timer_.make(device));
    SILT_CUDA_TRY(cudaStreamBeginCapture(timer_.stream, cudaStreamCaptureModeThreadLocal));
    const Status launched = launch_all(launches, launch, timer_.stream);
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(timer_.stream, &graph);
    const cudaError_t made = ended == cudaSuccess ? cudaGraphInstantiate(&graph_, graph, 0) : ended;
    if (graph != nullptr) cudaGraphDestroy(graph);
    SILT_TRY(launched);  // it says more than the capture that it broke
    SILT_TRY(cuda_status("graph capture", made));
    double us = 0;
    return sample(&us);
  }

  Status sample(double* us) override {
    SILT_CUDA_TRY(cudaSetDevice(timer_.device.index));
    SILT_TRY(launch_kernel("spin", spin_kernel(), 1, 1, timer_.device, {.stream = timer_.stream, .pdl = Pdl::off},
                           kSpinNanoseconds));
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
  found.driver = fmt::format("CUDA {}.{}", driver / 1000, driver % 1000 / 10);
  std::ifstream file("/proc/driver/nvidia/version");
  std::string word;
  while (file >> word) {  // "NVRM version: ... Kernel Module  580.159.04  Release Build ..."
    if (word.find_first_not_of("0123456789.") != std::string::npos || word.find('.') == std::string::npos) continue;
    found.driver += " (" + word + ")";
    break;
  }
  found.toolkit = fmt::format("CUDA {}.{}", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
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
  constexpr int64_t kBlocks = 2048;
  constexpr int kThreads = 256;
  const Launch plain{.pdl = Pdl::off};
  if (dtype == DType::bf16) {
    SILT_TRY(launch_kernel("fill", fill_bf16_kernel(), kBlocks, kThreads, device, plain, static_cast<uint16_t*>(data),
                           count, low, high, seed));
  } else {
    SILT_TRY(launch_kernel("fill", fill_f32_kernel(), kBlocks, kThreads, device, plain, static_cast<float*>(data),
                           count, low, high, seed));
  }
  return cuda_status("cudaDeviceSynchronize", cudaDeviceSynchronize());
}

Status Series::capture(Device device, int64_t launches, LaunchSeries launch, std::unique_ptr<Series>* series) {
  auto made = std::make_unique<GraphSeries>();
  SILT_TRY(made->make(device, launches, launch));
  *series = std::move(made);
  return {};
}

Status sample_eager(Device device, int64_t launches, LaunchSeries launch, double* us) {
  Timer timer;
  SILT_TRY(timer.make(device));
  SILT_CUDA_TRY(cudaEventRecord(timer.start, timer.stream));
  SILT_TRY(launch_all(launches, launch, timer.stream));
  return timer.finish(launches, us);
}

Status launch_empty(int ctas, Device device, const Launch& launch) {
  return launch_kernel("empty", empty_kernel(), ctas, 128, device, launch, static_cast<unsigned*>(nullptr));
}

Status launch_copy(void* target, const void* source, size_t bytes, Device, const Launch& launch) {
  return cuda_status("cudaMemcpyAsync", cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToDevice,
                                                        static_cast<cudaStream_t>(launch.stream)));
}

Status launch_read(const void* source, size_t bytes, Device device, const Launch& launch) {
  const DeviceFacts* facts = nullptr;
  SILT_TRY(facts_of(device, &facts));
  return launch_kernel("read", read_kernel(), 2 * facts->processors, 512, device, launch,
                       static_cast<const uint4*>(source), static_cast<int64_t>(bytes / 16),
                       static_cast<unsigned*>(nullptr));
}

std::string row_mover_name(int variant) { return row_variant(variant, 0).name; }

namespace {

/// Blocks per token, at least as many as the variant's, and their threads: 16 bytes a thread.
struct RowCut {
  int64_t parts;
  int threads;
};
RowCut cut_row(int64_t row_bytes, int least_parts) {
  constexpr int64_t kMostThreads = 512;
  const int64_t vectors = (row_bytes + 15) / 16;
  const int64_t parts = std::max<int64_t>(least_parts, (vectors + kMostThreads - 1) / kMostThreads);
  return {parts, static_cast<int>(((vectors + parts - 1) / parts + 31) / 32 * 32)};
}

}  // namespace

Status launch_row_mover(const RowMover& m, int variant, Device device, const Launch& launch) {
  const RowVariant v = row_variant(variant, m.rows);
  const RowCut cut = cut_row(m.row_bytes, v.parts);
  return launch_kernel(v.name, v.kernel, m.tokens * cut.parts, cut.threads, device, launch, m,
                       static_cast<int>(cut.parts), launch.pdl == Pdl::late);
}

std::string sweep_mover_name(int variant) { return sweep_variant(variant, 1).name; }

Status launch_sweep_mover(const SweepMover& m, int variant, Device device, const Launch& launch) {
  const SweepVariant v = sweep_variant(variant, m.rows);
  const RowCut cut = cut_row(m.row_bytes, v.parts);
  return launch_kernel(v.name, v.kernel, m.tokens * cut.parts, cut.threads, device, launch, m,
                       static_cast<int>(cut.parts), launch.pdl == Pdl::late);
}

std::string slot_mover_name(int variant) { return slot_variant(variant).name; }

int64_t slot_mover_piece(int variant) {
  const SlotVariant v = slot_variant(variant);
  return int64_t{16} * v.threads * v.vectors;
}

Status launch_slot_mover(const SlotMover& m, int variant, Device device, const Launch& launch) {
  const SlotVariant v = slot_variant(variant);
  const int64_t piece = slot_mover_piece(variant);
  if (m.slot_payload % piece != 0) {
    return invalid("{}: payload: has {} bytes, needs a multiple of {}", v.name, m.slot_payload, piece);
  }
  const int64_t pieces = m.slot_payload / piece;
  return launch_kernel(v.name, v.kernel, m.rows * pieces, v.threads, device, launch, m, static_cast<int>(pieces));
}

}  // namespace silt::bench::gpu
