// Times every schedule of cuda_sm90_heads in every cell of a grid of sizes, to choose the limits in
// cuda_sm90_heads.cpp on another device.
//
//   tune_kda_decode [FILE.csv] [-c HxB,HxB,...] [-s f32|bf16|both] [-n SAMPLES]
//
// Protocol: a graph of n launches over S sets of everything (state, history, inputs, weights, slots), a decoder step's
// 69 where they fit into 8 GB and else so many that they take 400 MB, at least three; events around replays, two rounds
// over all variants, medians. Fewer sets stay in L2 in part, most of all what has no evict-first hint. Minimum bytes of
// cost.cpp. A device copy of the same run stands first. `prefetch` is with dependent launches, `wait` the same without
// asking in L2 for what is read behind the wait, `off` without. `chosen` marks what choose_schedule takes with and
// without dependent launches.
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/memory.hpp"
#include "kda/decode/cuda/cuda_sm80_rows.hpp"
#include "kda/decode/cuda/cuda_sm90_heads.hpp"
#include "proof/random.hpp"

namespace silt {
namespace {

using kda_decode_cuda_sm90_heads::choose_schedule;
using kda_decode_cuda_sm90_heads::kSchedules;
using kda_decode_cuda_sm90_heads::Schedule;

constexpr Device kGpu{DeviceKind::cuda, 0};
constexpr size_t kTileBytes = size_t{8} << 20;
constexpr size_t kColdBytes = 400'000'000;
constexpr size_t kMostBytes = 8'000'000'000;
constexpr size_t kStepSets = 69;  // KDA layers of Kimi-K3

void demand(bool ok, const std::string& text) {
  if (ok) return;
  std::fprintf(stderr, "tune_kda_decode: %s\n", text.c_str());
  std::exit(1);
}
void demand(cudaError_t code) { demand(code == cudaSuccess, cudaGetErrorString(code)); }
void demand(const Status& status) { demand(status.ok(), status.message()); }

/// Random values on the device, in both element types; every tensor is filled from here.
struct Tiles {
  Tiles() {
    Random random(1);
    std::vector<float> f32(kTileBytes / sizeof(float));
    std::vector<bf16> half(kTileBytes / sizeof(bf16));
    for (float& v : f32) v = random.uniform(-0.7F, 0.7F);
    for (bf16& v : half) v = to_bf16(random.uniform(-1.5F, 1.5F));
    demand(DeviceBuffer::make(kGpu, kTileBytes, &floats));
    demand(DeviceBuffer::make(kGpu, kTileBytes, &halves));
    demand(floats.upload(0, f32.data(), kTileBytes));
    demand(halves.upload(0, half.data(), kTileBytes));
  }
  DeviceBuffer floats;
  DeviceBuffer halves;
};

struct Cell {
  int64_t h;
  int64_t b;
};

/// One set: everything that a call reads and writes, on its own memory.
class Set {
 public:
  Set(const Tiles& tiles, Cell cell, DType state) : tiles_(tiles) {
    const int64_t b = cell.b;
    const int64_t h = cell.h;
    const int64_t p = 128 * h;
    args_.x = tensor(DType::bf16, {b, 3 * p});
    args_.conv_weight = tensor(DType::f32, {3, 4, p});
    args_.conv_state = tensor(DType::bf16, {b + 1, 3, 3 * p});
    args_.conv_state.shape = {b + 1, 3 * p, 3};
    args_.conv_state.stride = {9 * p, 1, 3 * p};
    args_.raw_gate = tensor(DType::bf16, {b, h, 128});
    args_.raw_beta = tensor(DType::bf16, {b, h});
    args_.A_log = tensor(DType::f32, {h});
    args_.dt_bias = tensor(DType::f32, {h, 128});
    args_.state = tensor(state, {b + 1, h, 128, 128});
    args_.output_gate = tensor(DType::bf16, {b, h, 128});
    args_.norm_weight = tensor(DType::f32, {128});
    args_.output = tensor(DType::bf16, {b, h, 128});
    std::vector<int32_t> slots(static_cast<size_t>(b));
    for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int32_t>(i + 1);
    Random random(static_cast<uint64_t>(b));
    for (size_t i = slots.size(); i > 1; --i) {
      std::swap(slots[i - 1], slots[static_cast<size_t>(random.below(static_cast<int64_t>(i)))]);
    }
    args_.state_indices = tensor(DType::i32, {b});
    demand(buffers_.back()->upload(0, slots.data(), slots.size() * sizeof(int32_t)));
    demand(check(args_, &problem_));
  }
  [[nodiscard]] const KdaDecodeArgs& args() const { return args_; }
  [[nodiscard]] const KdaDecodeProblem& problem() const { return problem_; }

 private:
  TensorView tensor(DType dtype, std::initializer_list<int64_t> shape) {
    size_t bytes = size_of(dtype);
    for (const int64_t n : shape) bytes *= static_cast<size_t>(n);
    buffers_.push_back(std::make_unique<DeviceBuffer>());
    demand(DeviceBuffer::make(kGpu, bytes, buffers_.back().get()));
    std::byte* data = buffers_.back()->data();
    const std::byte* tile = (dtype == DType::bf16 ? tiles_.halves : tiles_.floats).data();
    for (size_t at = 0; dtype != DType::i32 && at < bytes; at += kTileBytes) {
      demand(cudaMemcpyAsync(data + at, tile, std::min(kTileBytes, bytes - at), cudaMemcpyDeviceToDevice, nullptr));
    }
    if (dtype == DType::bf16) return view(reinterpret_cast<bf16*>(data), shape, {}, kGpu);
    if (dtype == DType::f32) return view(reinterpret_cast<float*>(data), shape, {}, kGpu);
    return view(reinterpret_cast<int32_t*>(data), shape, {}, kGpu);
  }

  const Tiles& tiles_;
  std::vector<std::unique_ptr<DeviceBuffer>> buffers_;
  KdaDecodeArgs args_;
  KdaDecodeProblem problem_;
};

/// A way to run the step: a schedule, or the portable kernel.
struct Variant {
  std::string name;
  std::optional<Schedule> schedule;
  Pdl pdl = Pdl::wait;
  cudaGraphExec_t graph = nullptr;
  std::vector<float> us;
  bool chosen = false;

  [[nodiscard]] std::string_view mode() const {
    if (pdl == Pdl::off) return "off";
    return schedule->prefetch ? "prefetch" : "wait";
  }
  [[nodiscard]] bool is(const Schedule& other) const {
    return schedule && schedule->name == other.name && schedule->prefetch == other.prefetch;
  }
  [[nodiscard]] double quantile(double q) const {
    std::vector<float> sorted = us;
    std::sort(sorted.begin(), sorted.end());
    return sorted[static_cast<size_t>(q * static_cast<double>(sorted.size() - 1) + 0.5)];
  }
};

class Bench {
 public:
  Bench() {
    demand(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    demand(cudaEventCreate(&begin_));
    demand(cudaEventCreate(&end_));
  }
  cudaGraphExec_t capture(const Variant& variant, const std::vector<std::unique_ptr<Set>>& sets, size_t launches) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    demand(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    for (size_t i = 0; i < launches; ++i) {
      const Set& set = *sets[i % sets.size()];
      const Launch launch{.stream = stream_, .pdl = variant.pdl};
      demand(variant.schedule
                 ? kda_decode_cuda_sm90_heads::launch_schedule(*variant.schedule, set.problem(), set.args(), launch)
                 : kda_decode_cuda_sm80_rows::launch(set.problem(), set.args(), launch));
    }
    demand(cudaStreamEndCapture(stream_, &graph));
    demand(cudaGraphInstantiate(&exec, graph, 0));
    demand(cudaGraphDestroy(graph));
    return exec;
  }
  /// Microseconds of one replay.
  float replay(cudaGraphExec_t graph) {
    demand(cudaEventRecord(begin_, stream_));
    demand(cudaGraphLaunch(graph, stream_));
    return elapsed();
  }
  float copy(void* to, const void* from, size_t bytes) {
    demand(cudaEventRecord(begin_, stream_));
    demand(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_));
    return elapsed();
  }

 private:
  float elapsed() {
    demand(cudaEventRecord(end_, stream_));
    demand(cudaEventSynchronize(end_));
    float ms = 0;
    demand(cudaEventElapsedTime(&ms, begin_, end_));
    return ms * 1000;
  }

  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

double copy_rate(Bench& bench) {
  constexpr size_t kBytes = size_t{2} << 30;
  DeviceBuffer from;
  DeviceBuffer to;
  demand(DeviceBuffer::make(kGpu, kBytes, &from));
  demand(DeviceBuffer::make(kGpu, kBytes, &to));
  std::vector<float> us;
  for (int i = 0; i < 12; ++i) us.push_back(bench.copy(to.data(), from.data(), kBytes));
  std::nth_element(us.begin(), us.begin() + 6, us.end());
  return 2.0 * static_cast<double>(kBytes) / us[6] * 1e-3;
}

std::vector<Variant> variants_of(DType state) {
  std::vector<Variant> all;
  for (const Schedule& schedule : kSchedules) {
    if (schedule.state != state) continue;
    for (const bool prefetch : {false, true}) {
      Schedule with = schedule;
      with.prefetch = prefetch;
      all.push_back({std::string(schedule.name), with, Pdl::wait, nullptr, {}, false});
    }
    all.push_back({std::string(schedule.name), schedule, Pdl::off, nullptr, {}, false});
  }
  all.push_back({"sm80_rows", std::nullopt, Pdl::off, nullptr, {}, false});
  return all;
}

/// Prints a cell; returns how much longer the schedule taken is than the best.
double tune(Bench& bench, const Tiles& tiles, Cell cell, DType state, int samples, int processors, std::FILE* csv) {
  std::vector<std::unique_ptr<Set>> sets;
  sets.push_back(std::make_unique<Set>(tiles, cell, state));
  const auto bytes = static_cast<size_t>(silt::bytes(sets[0]->problem()));
  const auto held = static_cast<size_t>(cell.b * cell.h) * 128 * 128 * size_of(state);
  const size_t count = std::max({size_t{3}, (kColdBytes + held - 1) / held, std::min(kStepSets, kMostBytes / held)});
  while (sets.size() < count) sets.push_back(std::make_unique<Set>(tiles, cell, state));
  const size_t most = bytes < 20'000'000 ? 69 : bytes < 250'000'000 ? 20 : bytes < 900'000'000 ? 9 : 6;
  const size_t launches = (std::max(most, count) + count - 1) / count * count;

  std::vector<Variant> variants = variants_of(state);
  for (Variant& variant : variants) {
    variant.graph = bench.capture(variant, sets, launches);
    bench.replay(variant.graph);
  }
  for (int round = 0; round < 2; ++round) {
    for (Variant& variant : variants) {
      bench.replay(variant.graph);
      for (int i = 0; i < (samples + 1) / 2; ++i) {
        variant.us.push_back(bench.replay(variant.graph) / static_cast<float>(launches));
      }
    }
  }
  double loss = 0;
  std::string text = fmt::format("h={} b={} {}", cell.h, cell.b, to_string(state));
  for (const bool dependent : {true, false}) {
    const Schedule& chosen = choose_schedule(cell.b * cell.h, state, processors, dependent);
    double best = std::numeric_limits<double>::infinity();
    double taken = best;
    std::string_view best_name;
    std::string_view best_mode;
    for (Variant& v : variants) {
      if ((v.pdl != Pdl::off) != dependent) continue;
      const double us = v.quantile(0.5);
      v.chosen = v.is(chosen);
      if (v.chosen) taken = us;
      if (us < best) {
        best = us;
        best_name = v.name;
        best_mode = v.mode();
      }
    }
    text += fmt::format("  {} {} {:.2f} (best {} {} {:.2f}, +{:.1f} %)", dependent ? "dependent" : "alone", chosen.name,
                        taken, best_name, best_mode, best, 100 * (taken / best - 1));
    loss = std::max(loss, taken / best - 1);
  }
  for (const Variant& v : variants) {
    std::fprintf(csv, "%lld,%lld,%s,%s,%s,%.3f,%.3f,%.3f,%.1f,%d\n", static_cast<long long>(cell.h),
                 static_cast<long long>(cell.b), std::string(to_string(state)).c_str(), v.name.c_str(),
                 std::string(v.mode()).c_str(), v.quantile(0.2), v.quantile(0.5), v.quantile(0.8),
                 static_cast<double>(bytes) / v.quantile(0.5) * 1e-3, v.chosen ? 1 : 0);
    demand(cudaGraphExecDestroy(v.graph));
  }
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
  std::fflush(csv);
  return loss;
}

std::vector<Cell> parse_cells(const std::string& text) {
  std::vector<Cell> cells;
  for (size_t at = 0; at < text.size();) {
    long long h = 0;
    long long b = 0;
    demand(std::sscanf(text.c_str() + at, "%lldx%lld", &h, &b) == 2 && h > 0 && b > 0,
           fmt::format("-c: has \"{}\", needs HxB,HxB,...", text));
    cells.push_back({h, b});
    at = text.find(',', at);
    if (at == std::string::npos) break;
    ++at;
  }
  return cells;
}

int run(int argc, char** argv) {
  std::string file = "tune_kda_decode.csv";
  std::string cells =
      "12x1,12x2,12x4,12x6,12x7,12x8,12x9,12x10,12x12,12x14,12x16,12x18,12x20,12x22,12x24,12x28,12x32,12x40,12x48,"
      "12x64,12x96,12x128,12x256,12x1024,96x64,96x128,96x256";
  std::string states = "both";
  int samples = 30;
  int i = 1;
  if (argc > 1 && argv[1][0] != '-') file = argv[i++];
  for (; i < argc; i += 2) {
    const std::string_view option = argv[i];
    demand(i + 1 < argc, fmt::format("{}: has no value, needs one", option));
    const std::string value = argv[i + 1];
    if (option == "-c") {
      cells = value;
    } else if (option == "-s") {
      demand(value == "f32" || value == "bf16" || value == "both",
             fmt::format("-s: has \"{}\", needs f32, bf16 or both", value));
      states = value;
    } else if (option == "-n") {
      samples = std::max(2, std::atoi(value.c_str()));
    } else {
      demand(false, fmt::format("has \"{}\", needs one of -c, -s, -n", option));
    }
  }
  DeviceFacts facts;
  demand(device_facts(kGpu, &facts));
  std::FILE* csv = std::fopen(file.c_str(), "w");
  demand(csv != nullptr, fmt::format("{}: cannot be written", file));
  std::fprintf(csv, "h,b,state,schedule,pdl,p20_us,p50_us,p80_us,gbs,chosen\n");
  Bench bench;
  std::printf("%s\ndevice copy %.0f GB/s\n", to_string(facts).c_str(), copy_rate(bench));
  const Tiles tiles;
  double worst = 0;
  std::string where = "nowhere";
  for (const Cell& cell : parse_cells(cells)) {
    for (const DType state : {DType::f32, DType::bf16}) {
      if (states != "both" && states != to_string(state)) continue;
      const double loss = tune(bench, tiles, cell, state, samples, facts.processors, csv);
      if (loss > worst) {
        worst = loss;
        where = fmt::format("h={} b={} {}", cell.h, cell.b, to_string(state));
      }
    }
  }
  std::fclose(csv);
  std::printf("tune: the schedule taken is at most %.1f %% behind the best (%s)\n", 100 * worst, where.c_str());
  return 0;
}

}  // namespace
}  // namespace silt

int main(int argc, char** argv) { return silt::run(argc, argv); }
