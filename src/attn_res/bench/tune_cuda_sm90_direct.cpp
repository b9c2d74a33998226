// Times every form of cuda_sm90_direct, the other CUDA kernels beside them, over blocks, tokens and orders, and says
// where choose_plan does not take the fastest: tune_cuda_sm90_direct [CSV] [samples].
//
// Launches run in a replayed graph of at least 2 ms over inputs that rotate through 160 MB, D = 7168, delta and norm.
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "attn_res/cuda/cuda_sm90_direct.hpp"
#include "device/memory.hpp"
#include "proof/random.hpp"

namespace silt {
namespace {

namespace direct = attn_res_cuda_sm90_direct;

constexpr Device kGpu = {DeviceKind::cuda, 0};
constexpr int64_t kD = 7168;
constexpr int64_t kSlots = 8;
constexpr int64_t kMostTokens = 8192;
constexpr int64_t kBankSets = 2;
constexpr int64_t kRowSets = 3;
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

struct Inputs {
  DeviceBuffer bank = random_rows(kBankSets * kMostTokens * kSlots * kD, 1);
  DeviceBuffer prefix = random_rows(kRowSets * kMostTokens * kD, 2);
  DeviceBuffer delta = random_rows(kRowSets * kMostTokens * kD, 3);
  DeviceBuffer output = random_rows(kRowSets * kMostTokens * kD, 4);
  DeviceBuffer weights = random_rows(3 * kD, 5);

  [[nodiscard]] static int64_t sets(int64_t n, int64_t t) {
    const size_t bytes = static_cast<size_t>(t * (n + 4) * kD) * sizeof(bf16);
    const int64_t wanted = std::max<int64_t>(2, static_cast<int64_t>(kRotate / bytes) + 1);
    return std::min({wanted, kRowSets * kMostTokens / t, kBankSets * kMostTokens / t});
  }

  [[nodiscard]] AttnResArgs args(int64_t n, int64_t t, int64_t set) const {
    const auto at = [](const DeviceBuffer& buffer, int64_t element) {
      return reinterpret_cast<bf16*>(buffer.data()) + element;
    };
    AttnResArgs args;
    args.prefix = view(at(prefix, set * t * kD), {t, kD}, {}, kGpu);
    args.delta = view(at(delta, set * t * kD), {t, kD}, {}, kGpu);
    args.output = view(at(output, set * t * kD), {t, kD}, {}, kGpu);
    args.blocks = view(at(bank, set * t * kSlots * kD), {t, kSlots, kD}, {}, kGpu);
    args.norm_weight = view(at(weights, 0), {kD}, {}, kGpu);
    args.qk_weight = view(at(weights, kD), {kD}, {}, kGpu);
    args.output_norm_weight = view(at(weights, 2 * kD), {kD}, {}, kGpu);
    args.num_blocks = n;
    args.stable_blocks = n;
    return args;
  }
};

struct Timing {
  double p20 = 0;
  double p50 = 0;
  double p80 = 0;
};

/// Microseconds per launch of `go(i)` in a replayed graph of `count` launches.
template <class Go>
Timing time_graph(int64_t count, int samples, cudaStream_t stream, Go go) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess, "capture");
  for (int64_t i = 0; i < count; ++i) {
    const Status status = go(i);
    if (!status.ok()) fmt::print(stderr, "tune: {}\n", status.message());
  }
  require(cudaStreamEndCapture(stream, &graph) == cudaSuccess, "capture");
  require(cudaGraphInstantiate(&replay, graph, 0) == cudaSuccess, "graph");
  std::vector<cudaEvent_t> events(static_cast<size_t>(samples) + 1);
  for (cudaEvent_t& event : events) require(cudaEventCreate(&event) == cudaSuccess, "event");
  for (int warm = 0; warm < 2; ++warm) require(cudaGraphLaunch(replay, stream) == cudaSuccess, "replay");
  cudaEventRecord(events[0], stream);
  for (size_t i = 1; i < events.size(); ++i) {
    cudaGraphLaunch(replay, stream);
    cudaEventRecord(events[i], stream);
  }
  require(cudaStreamSynchronize(stream) == cudaSuccess, "replay");
  std::vector<double> times;
  for (size_t i = 1; i < events.size(); ++i) {
    float milliseconds = 0;
    cudaEventElapsedTime(&milliseconds, events[i - 1], events[i]);
    times.push_back(1e3 * static_cast<double>(milliseconds) / static_cast<double>(count));
  }
  std::sort(times.begin(), times.end());
  for (cudaEvent_t event : events) cudaEventDestroy(event);
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
  const size_t n = times.size();
  return {times[n / 5], times[n / 2], times[n * 4 / 5]};
}

/// GB/s read plus written by a device-to-device copy of 512 MiB.
double copy_speed(const Inputs& inputs, cudaStream_t stream) {
  constexpr size_t kBytes = size_t{1} << 30;
  const Timing timing = time_graph(1, 9, stream, [&](int64_t) {
    cudaMemcpyAsync(inputs.bank.data(), inputs.bank.data() + kBytes / 2, kBytes / 2, cudaMemcpyDeviceToDevice, stream);
    return Status();
  });
  return static_cast<double>(kBytes) / timing.p50 * 1e-3;
}

struct Variant {
  std::string name;
  direct::Plan plan;
  const char* kernel = nullptr;  ///< another kernel, by name
};

const std::vector<Variant>& variants() {
  static const std::vector<Variant> all = {
      {"narrow", {direct::Form::narrow, false}},
      {"narrow.stream", {direct::Form::narrow, true}},
      {"wide", {direct::Form::wide, false}},
      {"wide.stream", {direct::Form::wide, true}},
      {"bulk", {}, "cuda_sm90_bulk"},
      {"rows", {}, "cuda_sm80_rows"},
  };
  return all;
}

struct Tuner {
  const Inputs& inputs;
  cudaStream_t stream;
  int samples;
  double copy;
  std::FILE* csv;
  int missed = 0;

  void run(int64_t n, int64_t t, Pdl pdl) {
    const char* mode = pdl == Pdl::off ? "nopdl" : pdl == Pdl::wait ? "wait" : "late";
    const int64_t sets = Inputs::sets(n, t);
    AttnResProblem problem;
    require(check(inputs.args(n, t, 0), &problem).ok(), "arguments");
    const double bytes_moved = static_cast<double>(bytes(problem));
    const double guess = 2.0 + bytes_moved / 4e6;  // us
    const int64_t count = (std::max<int64_t>(8, static_cast<int64_t>(2000 / guess)) + sets - 1) / sets * sets;
    const direct::Plan chosen = direct::choose_plan(problem, pdl);
    std::string text;
    double best = 1e30;
    double own = 0;
    for (const Variant& variant : variants()) {
      if (variant.kernel != nullptr && (t < 64 || pdl == Pdl::off)) continue;
      Launch launch;
      launch.stream = stream;
      launch.pdl = pdl;
      if (variant.kernel != nullptr) launch.policy = Policy::require(variant.kernel);
      const Timing timing = time_graph(count, samples, stream, [&](int64_t i) {
        const AttnResArgs args = inputs.args(n, t, i % sets);
        return variant.kernel != nullptr ? attn_res(args, launch)
                                         : direct::launch_plan(problem, args, launch, variant.plan);
      });
      fmt::print(csv, "{},{},{},{},{:.3f},{:.3f},{:.3f},{:.3f}\n", n, t, mode, variant.name, timing.p20, timing.p50,
                 timing.p80, bytes_moved / timing.p50 * 1e-3 / copy);
      const bool is_own =
          variant.kernel == nullptr && variant.plan.form == chosen.form && variant.plan.stream == chosen.stream;
      if (is_own) own = timing.p50;
      if (variant.kernel == nullptr) best = std::min(best, timing.p50);
      text += fmt::format(" {}{:8.2f}", is_own ? "*" : " ", timing.p50);
    }
    const bool miss = own > 1.02 * best;
    missed += miss ? 1 : 0;
    fmt::print("{:>2} {:>5} {:<5}{} {}\n", n, t, mode, text, miss ? "<- not the fastest" : "");
    std::fflush(stdout);
  }
};

int main_of(int argc, char** argv) {
  DeviceFacts facts;
  if (const Status status = device_facts(kGpu, &facts); !status.ok() || !direct::has_code_for(facts.arch_number)) {
    fmt::print(stderr, "tune: {}\n", status.ok() ? facts.arch + " has no code of cuda_sm90_direct" : status.message());
    return 2;
  }
  std::FILE* csv = std::fopen(argc > 1 ? argv[1] : "tune_cuda_sm90_direct.csv", "w");
  require(csv != nullptr, "csv");
  fmt::print(csv, "n,t,mode,variant,p20_us,p50_us,p80_us,copy_fraction\n");
  cudaStream_t stream = nullptr;
  require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess, "stream");
  const Inputs inputs;
  Tuner tuner{inputs, stream, argc > 2 ? std::atoi(argv[2]) : 11, copy_speed(inputs, stream), csv};
  fmt::print("{}; copy {:.0f} GB/s; us per launch, * = what choose_plan takes\n n     t mode ", to_string(facts),
             tuner.copy);
  for (const Variant& variant : variants()) fmt::print(" {:>8.8}", variant.name.substr(variant.name.find('.') + 1));
  fmt::print("\n");
  for (const int64_t n : {8, 4, 1, 0, 2, 6}) {
    for (const int64_t t : {1, 4, 16, 32, 48, 64, 96, 132, 133, 256, 512, 1024, 2048, 4096, 8192}) {
      const bool secondary = n == 2 || n == 6;
      if (secondary && t != 1 && t != 64 && t != 256 && t != 2048) continue;
      for (const Pdl pdl : {Pdl::wait, Pdl::late}) tuner.run(n, t, pdl);
      if (n == 8 && (t == 1 || t == 64)) tuner.run(n, t, Pdl::off);
    }
  }
  fmt::print("tune: {} rows are not the fastest by more than 2 %\n", tuner.missed);
  std::fclose(csv);
  return 0;
}

}  // namespace
}  // namespace silt

int main(int argc, char** argv) { return silt::main_of(argc, argv); }
