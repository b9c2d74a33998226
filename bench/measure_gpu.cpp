// The GPU protocol: launches over rotating input sets, captured into one CUDA graph per contestant and replayed in
// rounds. A replay lasts at least 2 ms, or its start-up would be shared by too few launches. Plain C++: what touches
// CUDA is behind gpu_protocol.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "silt/device.hpp"

#include "bench/gpu_protocol.hpp"
#include "bench/hip/hip_protocol.hpp"
#include "bench/measure.hpp"
#include "core/status.hpp"
#include "device/memory.hpp"

namespace silt::bench {
namespace {

Pdl pdl_of(Mode mode) {
  switch (mode) {
    case Mode::graph_late:
      return Pdl::late;
    case Mode::graph_nopdl:
      return Pdl::off;
    default:
      return Pdl::wait;
  }
}

Launch launch_of(Mode mode, void* stream) {
  Launch launch;
  launch.stream = stream;
  launch.pdl = pdl_of(mode);
  return launch;
}

using LaunchSet = std::function<Status(int64_t set, const Launch& launch)>;

/// One contestant's series of launches and its graph, where it has one.
struct Series {
  LaunchSet launch;
  Mode mode = Mode::graph;
  Device device;
  int64_t sets = 1;
  int64_t launches = 1;
  std::unique_ptr<gpu::Series> graph;

  Status capture() {
    if (mode == Mode::eager) return {};
    return gpu::Series::capture(
        device, launches, [this](int64_t i, void* stream) { return launch(i % sets, launch_of(mode, stream)); },
        &graph);
  }
  Status sample(double* us) {
    if (mode != Mode::eager) return graph->sample(us);
    const auto one = [this](int64_t i, void* stream) { return launch(i % sets, launch_of(mode, stream)); };
    return device.kind == DeviceKind::hip ? hip_gpu::sample_eager(device, launches, one, us)
                                          : gpu::sample_eager(device, launches, one, us);
  }
  /// As many whole rotations as make a sample of `sample_us`. Short graphs say little about long ones (one launch alone
  /// takes four times its share of a long graph), so the estimate is made again until it holds.
  Status prepare(double sample_us) {
    constexpr int kMostEstimates = 4;
    launches = sets;
    SILT_TRY(capture());
    for (int i = 0; i < kMostEstimates; ++i) {
      double us = 0;
      SILT_TRY(sample(&us));
      const int64_t wanted = launches_per_sample(sample_us, us);
      if (wanted <= launches) return {};
      launches = (wanted + sets - 1) / sets * sets;
      SILT_TRY(capture());
    }
    return {};
  }
};

/// Contestants of a cell, each with the row of the plan that it fills.
class Field {
 public:
  Field(Device device, const Settings& settings) : device_(device), settings_(settings) {}

  Status add(std::string name, Mode mode, int64_t sets, LaunchSet launch) {
    auto series = std::make_shared<Series>();
    series->launch = std::move(launch);
    series->mode = mode;
    series->device = device_;
    series->sets = sets;
    SILT_TRY(series->prepare(settings_.sample_us));
    series_.push_back(series);
    contestants_.push_back({std::move(name), [series](double* us) { return series->sample(us); }});
    return {};
  }
  Status run_rounds(int rounds, const std::function<void(double)>& progress) {
    return run_contest(contestants_, rounds, progress);
  }

  [[nodiscard]] size_t size() const { return contestants_.size(); }
  [[nodiscard]] const Contestant& contestant(size_t i) const { return contestants_[i]; }
  [[nodiscard]] const Series& series(size_t i) const { return *series_[i]; }
  /// The fastest p50 of the contestants of a mode with one of these names.
  [[nodiscard]] double fastest(Mode mode, const std::vector<std::string>& names) const {
    std::vector<Contestant> same;
    for (size_t i = 0; i < size(); ++i) {
      if (series_[i]->mode == mode) same.push_back(contestants_[i]);
    }
    return detail::fastest_p50(same, names);
  }

 private:
  Device device_;
  const Settings& settings_;
  std::vector<std::shared_ptr<Series>> series_;
  std::vector<Contestant> contestants_;
};

using VerifiedRows = std::map<std::pair<std::string, Mode>, std::string>;

Status verify_kernels(const Cell& cell, Subject& subject, VerifiedRows* rows) {
  for (const Mode mode : cell.modes) {
    for (const std::string& kernel : cell.kernels) {
      Verified found;
      SILT_TRY(subject.verify(kernel, launch_of(mode, nullptr), &found));
      if (!found.verdict.ok) {
        return failed(StatusCode::device_error, "{}: {} ({}): wrong result, not timed: {}", cell.line, kernel,
                      to_string(mode), found.verdict.detail);
      }
      (*rows)[{kernel, mode}] = found.what;
    }
  }
  return {};
}

/// The mover that is the fastest in a mode, by a few samples of each.
Status pick_mover(const std::vector<Mover>& movers, Device device, const Settings& settings, Mode mode, int64_t sets,
                  const Mover** fastest) {
  constexpr int kSamples = 5;
  Field field(device, settings);
  for (const Mover& mover : movers) SILT_TRY(field.add(mover.name, mode, sets, mover.launch));
  SILT_TRY(field.run_rounds(kSamples, [](double) {}));
  for (const Mover& mover : movers) {
    if (*fastest == nullptr || field.fastest(mode, {mover.name}) < field.fastest(mode, {(*fastest)->name})) {
      *fastest = &mover;
    }
  }
  return {};
}

/// What the rows that are no kernels move, and say.
struct Extras {
  double bytes = 0;
  std::string note;
};

/// The rows of the plan in its order.
Status add_rows(const Plan& plan, Device device, const Settings& settings, Subject& subject, int64_t sets,
                const std::vector<Mover>& movers, Field& field, std::vector<Extras>* extras) {
  DeviceFacts facts;
  SILT_TRY(device_facts(device, &facts));
  for (const Plan::Row& row : plan.rows) {
    LaunchSet launch;
    Extras extra;
    if (row.is_kernel) {
      launch = [&subject, kernel = row.kernel](int64_t set, const Launch& l) { return subject.launch(kernel, set, l); };
      extra.bytes = static_cast<double>(subject.bytes());
    } else if (row.kernel == kFloor) {
      launch = [ctas = facts.processors, device](int64_t, const Launch& l) {
        return gpu::launch_empty(ctas, device, l);
      };
    } else {
      const Mover* mover = nullptr;
      SILT_TRY(pick_mover(movers, device, settings, row.mode, sets, &mover));
      launch = mover->launch;
      extra = {mover->bytes, fmt::format("fastest of {}: {}", movers.size(), mover->name)};
    }
    SILT_TRY(field.add(row.kernel, row.mode, row.kernel == kFloor ? 1 : sets, launch));
    extras->push_back(extra);
  }
  return {};
}

}  // namespace

Status detail::measure_gpu(const Cell& cell, const Settings& settings, Subject& subject,
                           const std::function<void(double)>& progress, std::vector<Result>* results) {
  // With fewer, a launch that starts early would read what the one before it writes.
  constexpr int64_t kLeastSets = 3;
  const int64_t sets = sets_needed(subject, settings, false, subject.calls_per_step());
  if (sets < kLeastSets) {
    return failed(StatusCode::out_of_memory, "{}: memory: has room for {} input sets, needs {}", cell.line, sets,
                  kLeastSets);
  }
  SILT_TRY(subject.make_sets(cell.device, sets));
  VerifiedRows verified;
  SILT_TRY(verify_kernels(cell, subject, &verified));
  const Plan rows = plan(cell, subject);
  const std::vector<Mover> movers = movers_of(subject, cell.device.kind);
  std::vector<Extras> extras;
  Field field(cell.device, settings);
  SILT_TRY(add_rows(rows, cell.device, settings, subject, sets, movers, field, &extras));
  SILT_TRY(field.run_rounds(settings.samples, progress));

  for (size_t i = 0; i < field.size(); ++i) {
    Result result;
    result.op = cell.op;
    result.problem = cell.line;
    result.kernel = field.contestant(i).name;
    result.mode = field.series(i).mode;
    result.samples_us = field.contestant(i).samples_us;
    result.us = percentiles(result.samples_us);
    result.sets = field.series(i).sets;
    result.launches = field.series(i).launches;
    result.bytes = extras[i].bytes;
    result.note = extras[i].note;
    if (rows.rows[i].is_kernel) {
      result.flops = static_cast<double>(subject.flops());
      result.verified = verified[{result.kernel, result.mode}];
      result.floor_us = field.fastest(result.mode, {std::string(kFloor)});
      result.probe_us = field.fastest(result.mode, {std::string(kMover)});
      result.copy_fraction = result.gbs() / settings.device_copy_gbs;
      result.copy_fraction_p20 = result.bytes / result.us.p20 * 1e-3 / settings.device_copy_gbs;
    }
    results->push_back(std::move(result));
  }
  // The timed launches changed the sets in place; what the kernels make of them must still be right.
  return verify_kernels(cell, subject, &verified);
}

namespace {

/// Of an AMD device the copy alone: half of a stretch to the other half, as long as a quarter of what is free allows.
Status measure_copy(Device device, Settings* settings) {
  constexpr int64_t kMostBytes = int64_t{1} << 30;
  int64_t free = 0;
  SILT_TRY(hip_gpu::free_memory(device, &free));
  const int64_t piece = std::min(free / 8 / 256 * 256, kMostBytes);
  DeviceBuffer memory;
  SILT_TRY(DeviceBuffer::make(device, static_cast<size_t>(2 * piece), &memory));
  Field field(device, *settings);
  SILT_TRY(field.add("copy", Mode::eager, 1, [&](int64_t, const Launch&) {
    return hip_gpu::launch_copy(memory.data() + piece, memory.data(), static_cast<size_t>(piece), device);
  }));
  SILT_TRY(field.run_rounds(settings->samples, [](double) {}));
  settings->device_copy_gbs = 2.0 * static_cast<double>(piece) / field.fastest(Mode::eager, {"copy"}) * 1e-3;
  return {};
}

}  // namespace

Status measure_device_ceilings(Device device, Settings* settings) {
  if (device.kind == DeviceKind::hip) return measure_copy(device, settings);
  constexpr int64_t kPiece = int64_t{1} << 30;
  constexpr int64_t kPieces = 4;
  DeviceBuffer memory;
  SILT_TRY(DeviceBuffer::make(device, static_cast<size_t>(kPieces * kPiece), &memory));
  SILT_TRY(gpu::fill_uniform(device, memory.data(), DType::f32, kPieces * kPiece / 4, -1, 1, 9));
  Settings longer = *settings;
  longer.sample_us = 8000;  // the copy is launched from the host: its start is a few microseconds
  Field field(device, longer);
  // On a stream, not in a graph: there the driver gives a copy to the copy engine, which reaches two thirds of it.
  SILT_TRY(field.add("copy", Mode::eager, kPieces / 2, [&](int64_t i, const Launch& l) {
    return gpu::launch_copy(memory.data() + (kPieces / 2 + i) * kPiece, memory.data() + i * kPiece, kPiece, device, l);
  }));
  SILT_TRY(field.add("read", Mode::graph_nopdl, kPieces, [&](int64_t i, const Launch& l) {
    return gpu::launch_read(memory.data() + i * kPiece, kPiece, device, l);
  }));
  SILT_TRY(field.run_rounds(settings->samples, [](double) {}));
  settings->device_copy_gbs = 2.0 * kPiece / field.fastest(Mode::eager, {"copy"}) * 1e-3;
  settings->device_read_gbs = 1.0 * kPiece / field.fastest(Mode::graph_nopdl, {"read"}) * 1e-3;
  return {};
}

}  // namespace silt::bench
