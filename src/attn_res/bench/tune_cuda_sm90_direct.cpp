// Times every form of cuda_sm90_direct and every way to begin, the other CUDA kernels beside them, over blocks, tokens
// and orders; prints the fastest of each cell beside the goal of docs/measuring.md and what choose_plan takes:
// tune_cuda_sm90_direct [CSV] [samples] [MB]. Goal cells first.
//
// Launches run in a replayed graph of at least 2 ms and 12 launches over inputs that rotate through MB (160) or, where
// that is less, 187 sets; D = 7168, delta and norm. Copy bandwidth and launch floor are measured in the same run.
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "attn_res/bench/floor.hpp"
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
constexpr int64_t kMostSets = 187;  // calls of a decoder's step
constexpr size_t kRotate = 160;     // MB: beyond the L2 of every GPU this runs on
constexpr float kQk = 0.035F;       // 3 / sqrt(D): logits with a standard deviation near 1, as silt-bench has them

void require(bool good, const char* what) {
  if (good) return;
  fmt::print(stderr, "tune: {}: {}\n", what, cudaGetErrorString(cudaGetLastError()));
  std::exit(1);
}

/// Random bf16 values, the same 16 MB over and over.
DeviceBuffer random_rows(int64_t elements, uint64_t seed, float low = -1.0F, float high = 1.0F) {
  std::vector<bf16> pattern(size_t{8} << 20);
  Random random(seed);
  for (bf16& value : pattern) value = to_bf16(random.uniform(low, high));
  DeviceBuffer buffer;
  const size_t bytes = static_cast<size_t>(elements) * sizeof(bf16);
  require(DeviceBuffer::make(kGpu, bytes, &buffer).ok(), "memory");
  for (size_t at = 0; at < bytes; at += pattern.size() * sizeof(bf16)) {
    require(buffer.upload(at, pattern.data(), std::min(bytes - at, pattern.size() * sizeof(bf16))).ok(), "upload");
  }
  return buffer;
}

struct Inputs {
  explicit Inputs(size_t megabytes)
      : rotate(megabytes << 20),
        tokens(std::max(2 * kMostTokens, static_cast<int64_t>(rotate / (sizeof(bf16) * kD * (kSlots + 4))))),
        bank(random_rows(tokens * kSlots * kD, 1)),
        prefix(random_rows(tokens * kD, 2)),
        delta(random_rows(tokens * kD, 3)),
        output(random_rows(tokens * kD, 4)),
        norm_weight(random_rows(kD, 5, 0.7F, 1.3F)),
        qk_weight(random_rows(kD, 6, -kQk, kQk)),
        output_norm_weight(random_rows(kD, 7, 0.3F, 1.7F)) {}

  size_t rotate;   ///< bytes
  int64_t tokens;  ///< that there is memory for
  DeviceBuffer bank;
  DeviceBuffer prefix;
  DeviceBuffer delta;
  DeviceBuffer output;
  DeviceBuffer norm_weight;
  DeviceBuffer qk_weight;
  DeviceBuffer output_norm_weight;

  [[nodiscard]] int64_t sets(int64_t n, int64_t t) const {
    const size_t bytes = static_cast<size_t>(t * (n + 4) * kD) * sizeof(bf16);
    const int64_t wanted = std::max<int64_t>(2, static_cast<int64_t>(rotate / bytes) + 1);
    return std::min({wanted, kMostSets, tokens / t});
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
    args.norm_weight = view(at(norm_weight, 0), {kD}, {}, kGpu);
    args.qk_weight = view(at(qk_weight, 0), {kD}, {}, kGpu);
    args.output_norm_weight = view(at(output_norm_weight, 0), {kD}, {}, kGpu);
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

/// GB/s read plus written by a device-to-device copy of 2 GiB on a stream. Not in a graph: there the driver gives a
/// copy to the copy engine, which reaches two thirds of it.
double copy_speed(cudaStream_t stream) {
  constexpr size_t kBytes = size_t{2} << 30;
  DeviceBuffer from;
  DeviceBuffer to;
  require(DeviceBuffer::make(kGpu, kBytes, &from).ok() && DeviceBuffer::make(kGpu, kBytes, &to).ok(), "memory");
  require(cudaMemsetAsync(from.data(), 0x3c, kBytes, stream) == cudaSuccess, "memory");
  cudaEvent_t start = nullptr;
  cudaEvent_t stop = nullptr;
  require(cudaEventCreate(&start) == cudaSuccess && cudaEventCreate(&stop) == cudaSuccess, "event");
  std::vector<double> speeds;
  for (int i = 0; i < 12; ++i) {
    cudaEventRecord(start, stream);
    cudaMemcpyAsync(to.data(), from.data(), kBytes, cudaMemcpyDeviceToDevice, stream);
    cudaEventRecord(stop, stream);
    require(cudaEventSynchronize(stop) == cudaSuccess, "copy");
    float milliseconds = 0;
    cudaEventElapsedTime(&milliseconds, start, stop);
    if (i >= 2) speeds.push_back(2e-6 * static_cast<double>(kBytes) / static_cast<double>(milliseconds));
  }
  std::sort(speeds.begin(), speeds.end());
  cudaEventDestroy(start);
  cudaEventDestroy(stop);
  return speeds[speeds.size() / 2];
}

struct Variant {
  std::string name;
  direct::Plan plan;
  const char* kernel = nullptr;  ///< another kernel, by name
};

/// Every plan that there is code for somewhere, and the other kernels.
const std::vector<Variant>& variants() {
  using Form = direct::Form;
  using Begin = direct::Begin;
  static const std::vector<Variant> all = [] {
    std::vector<Variant> list;
    for (const Form form : {Form::narrow, Form::two, Form::one}) {
      for (const bool stream : {false, true}) {
        for (const Begin begin : {Begin::rows, Begin::prefetch}) {
          const direct::Plan plan = {form, stream, begin};
          list.push_back({to_string(plan), plan});
        }
      }
    }
    list.push_back({"bulk", {}, "cuda_sm90_bulk"});
    list.push_back({"rows", {}, "cuda_sm80_rows"});
    return list;
  }();
  return all;
}

/// What is worth its time: a prefetch up to 512 tokens; the other kernels at one size.
bool is_timed(const Variant& variant, const AttnResProblem& problem, Pdl pdl) {
  using Begin = direct::Begin;
  const direct::Plan& plan = variant.plan;
  if (variant.kernel != nullptr) return pdl == Pdl::wait && problem.t == 1024;
  if (!direct::fits(plan, problem.n, problem.d)) return false;
  return plan.begin == Begin::rows || (problem.t <= 512 && pdl != Pdl::off);
}

/// docs/measuring.md, us.
struct Goals {
  int64_t n;
  Pdl pdl;
  double us[8];
};
constexpr int64_t kGoalTokens[] = {1, 4, 16, 64, 256, 1024, 4096, 8192};
constexpr Goals kGoals[] = {{8, Pdl::wait, {2.5, 2.7, 3.2, 5.4, 13.0, 43.5, 164, 322}},
                            {8, Pdl::late, {2.1, 2.2, 2.5, 3.8, 12.6, 43, 163, 320}},
                            {4, Pdl::wait, {2.3, 2.5, 2.9, 4.4, 9.8, 31, 112, 218}},
                            {4, Pdl::late, {2.05, 2.1, 2.35, 3.4, 9.2, 29.8, 110, 217}},
                            {1, Pdl::wait, {2.1, 2.3, 2.55, 3.4, 6.7, 20.5, 73, 142}},
                            {1, Pdl::late, {1.9, 2.0, 2.2, 2.95, 5.8, 19.8, 72, 141}},
                            {0, Pdl::wait, {1.6, 1.7, 1.9, 2.45, 4.9, 16.1, 58.3, 114.5}},
                            {0, Pdl::late, {1.45, 1.6, 1.8, 2.4, 4.9, 16.1, 58.3, 114.5}}};

/// 0: none.
double goal_of(int64_t n, int64_t t, Pdl pdl) {
  for (const Goals& goals : kGoals) {
    if (goals.n != n || goals.pdl != pdl) continue;
    for (size_t i = 0; i < std::size(kGoalTokens); ++i) {
      if (kGoalTokens[i] == t) return goals.us[i];
    }
  }
  return 0;
}

bool same(const direct::Plan& a, const direct::Plan& b) {
  return a.form == b.form && a.stream == b.stream && a.begin == b.begin;
}

struct Tuner {
  const Inputs& inputs;
  cudaStream_t stream;
  int samples;
  double copy;
  std::FILE* csv;
  int behind = 0;  ///< cells where choose_plan is not within 2 % of the fastest
  int goals = 0;
  int met = 0;  ///< by what choose_plan takes

  Timing time(const Variant& variant, const AttnResProblem& problem, Pdl pdl) const {
    const int64_t sets = inputs.sets(problem.n, problem.t);
    const double guess = 1 + static_cast<double>(bytes(problem)) / 4.8e6;  // us, on the low side
    const int64_t launches = std::max<int64_t>(12, static_cast<int64_t>(2000 / guess));
    Launch launch;
    launch.stream = stream;
    launch.pdl = pdl;
    if (variant.kernel != nullptr) launch.policy = Policy::require(variant.kernel);
    return time_graph((launches + sets - 1) / sets * sets, samples, stream, [&](int64_t i) {
      const AttnResArgs args = inputs.args(problem.n, problem.t, i % sets);
      return variant.kernel != nullptr ? attn_res(args, launch)
                                       : direct::launch_plan(problem, args, launch, variant.plan);
    });
  }

  void run(int64_t n, int64_t t, Pdl pdl) {
    const char* mode = pdl == Pdl::off ? "nopdl" : pdl == Pdl::wait ? "wait" : "late";
    AttnResProblem problem;
    require(check(inputs.args(n, t, 0), &problem).ok(), "arguments");
    const direct::Plan chosen = direct::choose_plan(problem, pdl);
    Variant own{"chosen", chosen};
    std::vector<std::pair<double, std::string>> times;
    double own_time = 0;
    const auto add = [&](const Variant& variant) {
      const Timing timing = time(variant, problem, pdl);
      fmt::print(csv, "{},{},{},{},{:.3f},{:.3f},{:.3f},{:.3f}\n", n, t, mode, variant.name, timing.p20, timing.p50,
                 timing.p80, static_cast<double>(bytes(problem)) / timing.p50 * 1e-3 / copy);
      if (variant.kernel == nullptr) times.emplace_back(timing.p50, variant.name);
      return timing.p50;
    };
    for (const Variant& variant : variants()) {
      if (!is_timed(variant, problem, pdl)) continue;
      const double p50 = add(variant);
      if (variant.kernel != nullptr || !same(variant.plan, chosen)) continue;
      own = variant;
      own_time = p50;
    }
    if (own_time == 0) own_time = add(own);
    std::sort(times.begin(), times.end());
    const double goal = goal_of(n, t, pdl);
    if (goal > 0) {
      ++goals;
      met += own_time <= goal ? 1 : 0;
    }
    const bool is_behind = own_time > 1.02 * times[0].first;
    behind += is_behind ? 1 : 0;
    std::string text;
    for (size_t i = 0; i < std::min<size_t>(3, times.size()); ++i) {
      text += fmt::format("  {:>7.2f} {:<22}", times[i].first, times[i].second);
    }
    fmt::print("{} {:>5} {:<5} {:>7.2f} {:<22} {:>7} {:<4} |{}{}\n", n, t, mode, own_time, own.name,
               goal > 0 ? fmt::format("{}", goal) : "",
               goal == 0          ? ""
               : own_time <= goal ? "met"
                                  : "MISS",
               text, is_behind ? " <- behind" : "");
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
  const Inputs inputs(argc > 3 ? static_cast<size_t>(std::atoll(argv[3])) : kRotate);
  Tuner tuner{inputs, stream, argc > 2 ? std::atoi(argv[2]) : 11, copy_speed(stream), csv};
  fmt::print(csv, "0,0,copy,copy,,,,{:.1f}\n", tuner.copy);
  for (const int64_t blocks : {1, 7, 448, 1792}) {
    for (const Pdl pdl : {Pdl::off, Pdl::wait}) {
      Launch launch;
      launch.stream = stream;
      launch.pdl = pdl;
      const Timing timing =
          time_graph(2000, tuner.samples, stream, [&](int64_t) { return launch_floor(blocks, kGpu, launch); });
      const char* mode = pdl == Pdl::off ? "nopdl" : "wait";
      fmt::print("floor of {} blocks, {}: {:.3f} us\n", blocks, mode, timing.p50);
      fmt::print(csv, "0,{},{},floor,{:.3f},{:.3f},{:.3f},\n", blocks, mode, timing.p20, timing.p50, timing.p80);
    }
  }
  fmt::print("{}; copy {:.0f} GB/s\nn     t mode  chosen (us), goal | the fastest three\n", to_string(facts),
             tuner.copy);
  for (const int64_t n : {8, 4, 1, 0}) {
    for (const int64_t t : kGoalTokens) {
      for (const Pdl pdl : {Pdl::wait, Pdl::late}) tuner.run(n, t, pdl);
      if (n == 8 && t <= 64) tuner.run(n, t, Pdl::off);
    }
  }
  for (const int64_t n : {8, 6, 4, 2, 1, 0}) {  // between the goals: where the table of choose_plan turns
    for (const int64_t t : {32, 128, 512, 2048}) {
      for (const Pdl pdl : {Pdl::wait, Pdl::late}) tuner.run(n, t, pdl);
    }
  }
  fmt::print("tune: {} of {} goals met; {} cells more than 2 % behind the fastest form\n", tuner.met, tuner.goals,
             tuner.behind);
  std::fclose(csv);
  return 0;
}

}  // namespace
}  // namespace silt

int main(int argc, char** argv) { return silt::main_of(argc, argv); }
