// Times the forms of the cuda_sm90_tensor sweep (attn_res/two_phase/cuda/cuda_sm90_tensor.hpp) for eight blocks and
// eight queries at D = 7168, bf16 partials, over tokens and orders: tune_attn_res_partials [CSV] [samples]. Some
// seconds.
//
// Launches run in a replayed graph of at least 2 ms and 12 launches over sets that rotate through 160 MB or more.
// Beside them a device copy of as many bytes, on a stream: in a graph the driver gives it to the copy engine.
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "attn_res/two_phase/cuda/cuda_sm90_tensor.hpp"
#include "device/memory.hpp"
#include "proof/random.hpp"

namespace silt {
namespace {

namespace tensor = attn_res_partials_cuda_sm90_tensor;
using tensor::Form;

constexpr Device kGpu = {DeviceKind::cuda, 0};
constexpr int64_t kD = 7168;
constexpr int64_t kBlocks = 8;
constexpr int64_t kQueries = 8;
constexpr int64_t kMostTokens = 4096;
constexpr int64_t kMostSets = 2;               // of the most tokens
constexpr size_t kRotate = size_t{160} << 20;  // beyond the L2 of every GPU this runs on

void require(bool good, const char* what) {
  if (good) return;
  fmt::print(stderr, "tune: {}: {}\n", what, cudaGetErrorString(cudaGetLastError()));
  std::exit(1);
}

/// Random bf16 values in (-1, 1), the same 16 MB over and over.
DeviceBuffer random_rows(int64_t elements, uint64_t seed) {
  std::vector<bf16> pattern(size_t{8} << 20);
  Random random(seed);
  for (bf16& value : pattern) value = to_bf16(random.uniform(-1.0F, 1.0F));
  DeviceBuffer buffer;
  const size_t bytes = static_cast<size_t>(elements) * sizeof(bf16);
  require(DeviceBuffer::make(kGpu, bytes, &buffer).ok(), "memory");
  for (size_t at = 0; at < bytes; at += pattern.size() * sizeof(bf16)) {
    require(buffer.upload(at, pattern.data(), std::min(bytes - at, pattern.size() * sizeof(bf16))).ok(), "upload");
  }
  return buffer;
}

struct Tensors {
  DeviceBuffer bank = random_rows(kMostSets * kMostTokens * kBlocks * kD, 1);
  DeviceBuffer mix = random_rows(kMostSets * kMostTokens * kQueries * kD, 2);
  DeviceBuffer statistics = random_rows(kMostSets * kMostTokens * kQueries * 4, 3);
  DeviceBuffer weights = random_rows(2 * kQueries * kD, 4);

  [[nodiscard]] AttnResPartialsArgs args(int64_t t, int64_t set) const {
    const auto at = [](const DeviceBuffer& buffer, int64_t element) {
      return reinterpret_cast<bf16*>(buffer.data()) + element;
    };
    AttnResPartialsArgs args;
    args.blocks = view(at(bank, set * t * kBlocks * kD), {t, kBlocks, kD}, {}, kGpu);
    args.norm_weight = view(at(weights, 0), {kQueries, kD}, {}, kGpu);
    args.qk_weight = view(at(weights, kQueries * kD), {kQueries, kD}, {}, kGpu);
    args.num_blocks = kBlocks;
    args.stable_blocks = kBlocks;
    args.statistics =
        view(reinterpret_cast<float*>(statistics.data()) + set * t * kQueries * 2, {kQueries, t, 2}, {}, kGpu);
    args.mix = view(at(mix, set * t * kQueries * kD), {kQueries, t, kD}, {}, kGpu);
    return args;
  }
};

struct Timing {
  double p20 = 0;
  double p50 = 0;
  double p80 = 0;
};

/// Of `go`, which launches work of `count` calls on the stream: microseconds a call.
template <class Go>
Timing time(int64_t count, int samples, cudaStream_t stream, Go go) {
  std::vector<cudaEvent_t> events(static_cast<size_t>(samples) + 1);
  for (cudaEvent_t& event : events) require(cudaEventCreate(&event) == cudaSuccess, "event");
  for (int warm = 0; warm < 2; ++warm) go();
  cudaEventRecord(events[0], stream);
  for (size_t i = 1; i < events.size(); ++i) {
    go();
    cudaEventRecord(events[i], stream);
  }
  require(cudaStreamSynchronize(stream) == cudaSuccess, "run");
  std::vector<double> times;
  for (size_t i = 1; i < events.size(); ++i) {
    float milliseconds = 0;
    cudaEventElapsedTime(&milliseconds, events[i - 1], events[i]);
    times.push_back(1e3 * static_cast<double>(milliseconds) / static_cast<double>(count));
  }
  std::sort(times.begin(), times.end());
  for (cudaEvent_t event : events) cudaEventDestroy(event);
  const size_t n = times.size();
  return {times[n / 5], times[n / 2], times[n * 4 / 5]};
}

struct Tuner {
  const Tensors& tensors;
  cudaStream_t stream;
  int samples;
  std::FILE* csv;

  Timing add(int64_t t, const char* mode, const char* variant, const Timing& timing) const {
    fmt::print(csv, "{},{},{},{:.3f},{:.3f},{:.3f}\n", t, mode, variant, timing.p20, timing.p50, timing.p80);
    return timing;
  }

  [[nodiscard]] Timing of_form(const AttnResPartialsProblem& problem, Pdl pdl, Form form) const {
    const double guess = 1 + static_cast<double>(bytes(problem)) / 4.8e6;  // us, on the low side
    const auto set_bytes = static_cast<size_t>(bytes(problem));
    const int64_t sets = std::min<int64_t>(std::max<int64_t>(2, static_cast<int64_t>(kRotate / set_bytes) + 1),
                                           kMostSets * kMostTokens / problem.t);
    const int64_t launches = std::max<int64_t>(12, static_cast<int64_t>(2000 / guess));
    const int64_t count = (launches + sets - 1) / sets * sets;
    Launch launch;
    launch.stream = stream;
    launch.pdl = pdl;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t replay = nullptr;
    require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess, "capture");
    for (int64_t i = 0; i < count; ++i) {
      const Status status = tensor::launch_form(problem, tensors.args(problem.t, i % sets), launch, form);
      if (!status.ok()) fmt::print(stderr, "tune: {}\n", status.message());
    }
    require(cudaStreamEndCapture(stream, &graph) == cudaSuccess, "capture");
    require(cudaGraphInstantiate(&replay, graph, 0) == cudaSuccess, "graph");
    const Timing timing = time(count, samples, stream, [&] { cudaGraphLaunch(replay, stream); });
    cudaGraphExecDestroy(replay);
    cudaGraphDestroy(graph);
    return timing;
  }

  void run(int64_t t, Pdl pdl) const {
    AttnResPartialsProblem problem;
    require(check(tensors.args(t, 0), &problem).ok(), "arguments");
    const char* mode = pdl == Pdl::wait ? "wait" : "late";
    constexpr std::pair<const char*, Form> kForms[] = {
        {"twice", Form::twice}, {"held", Form::held}, {"lines", Form::lines}};
    std::string text;
    double chosen = 0;
    double best = 1e9;
    for (const auto& [name, form] : kForms) {
      const double p50 = add(t, mode, name, of_form(problem, pdl, form)).p50;
      if (form == tensor::kForm) chosen = p50;
      best = std::min(best, p50);
      text += fmt::format("  {} {:.2f}", name, p50);
    }
    const size_t rows = static_cast<size_t>(t * kBlocks * kD) * sizeof(bf16);
    const Timing copy =
        add(t, mode, "copy", time(1, samples, stream, [&] {
              cudaMemcpyAsync(tensors.mix.data(), tensors.bank.data(), rows, cudaMemcpyDeviceToDevice, stream);
            }));
    fmt::print("tune: t {} {}: {}  copy {:.2f}{}\n", t, mode, text, copy.p50,
               chosen > 1.01 * best ? " <- chosen is behind" : "");
    std::fflush(stdout);
  }
};

int main_of(int argc, char** argv) {
  DeviceFacts facts;
  if (const Status status = device_facts(kGpu, &facts); !status.ok() || facts.arch_number < 90) {
    fmt::print(stderr, "tune: {}\n", status.ok() ? facts.arch + " has no code of cuda_sm90_tensor" : status.message());
    return 2;
  }
  std::FILE* csv = std::fopen(argc > 1 ? argv[1] : "tune_attn_res_partials.csv", "w");
  require(csv != nullptr, "csv");
  fmt::print(csv, "t,mode,variant,p20_us,p50_us,p80_us\n");
  cudaStream_t stream = nullptr;
  require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess, "stream");
  const Tensors tensors;
  const Tuner tuner{tensors, stream, argc > 2 ? std::atoi(argv[2]) : 21, csv};
  for (const int64_t t : {4096, 1024, 256}) {
    for (const Pdl pdl : {Pdl::wait, Pdl::late}) tuner.run(t, pdl);
  }
  std::fclose(csv);
  return 0;
}

}  // namespace
}  // namespace silt

int main(int argc, char** argv) { return silt::main_of(argc, argv); }
