// The GPU protocol: launches over rotating input sets, captured into one CUDA graph per contestant and replayed in
// rounds. A replay lasts at least 2 ms, or its start-up would be shared by too few launches. Plain C++: what touches
// CUDA is behind gpu_protocol.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "silt/device.hpp"

#include "bench/gpu_protocol.hpp"
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
    return gpu::sample_eager(
        device, launches, [this](int64_t i, void* stream) { return launch(i % sets, launch_of(mode, stream)); }, us);
  }
  /// As many whole rotations as make a sample of `sample_us`.
  Status prepare(double sample_us) {
    launches = sets;
    SILT_TRY(capture());
    double us = 0;
    SILT_TRY(sample(&us));
    const int64_t wanted = launches_per_sample(sample_us, us);
    if (wanted <= sets) return {};
    launches = (wanted + sets - 1) / sets * sets;
    return capture();
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
  Status run(const std::function<void(double)>& progress) {
    return run_contest(contestants_, settings_.samples, progress);
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

/// The rows of the plan in its order.
Status add_rows(const Plan& plan, Device device, const DeviceFacts& facts, Subject& subject, int64_t sets,
                Field& field) {
  const std::vector<Mover> movers = subject.movers(DeviceKind::cuda);
  for (const Plan::Row& row : plan.rows) {
    LaunchSet launch;
    if (row.is_kernel) {
      launch = [&subject, kernel = row.kernel](int64_t set, const Launch& l) { return subject.launch(kernel, set, l); };
    } else if (row.kernel == kFloor) {
      launch = [ctas = facts.processors, device](int64_t, const Launch& l) {
        return gpu::launch_empty(ctas, device, l);
      };
    } else {
      launch = std::find_if(movers.begin(), movers.end(), [&](const Mover& m) { return m.name == row.kernel; })->launch;
    }
    SILT_TRY(field.add(row.kernel, row.mode, row.kernel == kFloor ? 1 : sets, launch));
  }
  return {};
}

}  // namespace

Status detail::measure_gpu(const Cell& cell, const Settings& settings, Subject& subject,
                           const std::function<void(double)>& progress, std::vector<Result>* results) {
  DeviceFacts facts;
  SILT_TRY(device_facts(cell.device, &facts));
  const int64_t sets = sets_needed(subject, settings, false, subject.calls_per_step());
  SILT_TRY(subject.make_sets(cell.device, sets));
  VerifiedRows verified;
  SILT_TRY(verify_kernels(cell, subject, &verified));
  const Plan rows = plan(cell, subject);
  Field field(cell.device, settings);
  SILT_TRY(add_rows(rows, cell.device, facts, subject, sets, field));
  SILT_TRY(field.run(progress));

  std::vector<std::string> movers;
  std::map<std::string, double> own_bytes;  // of what is no kernel
  for (const Mover& mover : subject.movers(DeviceKind::cuda)) {
    movers.push_back(mover.name);
    own_bytes[mover.name] = mover.bytes;
  }
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
    result.bytes = own_bytes[result.kernel];
    if (rows.rows[i].is_kernel) {
      result.bytes = static_cast<double>(subject.bytes());
      result.flops = static_cast<double>(subject.flops());
      result.verified = verified[{result.kernel, result.mode}];
      result.floor_us = field.fastest(result.mode, {std::string(kFloor)});
      result.probe_us = field.fastest(result.mode, movers);
      result.copy_fraction = result.gbs() / settings.device_copy_gbs;
      result.copy_fraction_p20 = result.bytes / result.us.p20 * 1e-3 / settings.device_copy_gbs;
    }
    results->push_back(std::move(result));
  }
  // The timed launches changed the sets in place; what the kernels make of them must still be right.
  return verify_kernels(cell, subject, &verified);
}

Status measure_device_ceilings(Device device, Settings* settings) {
  constexpr int64_t kPiece = int64_t{1} << 30;
  constexpr int64_t kPieces = 4;
  DeviceBuffer memory;
  SILT_TRY(DeviceBuffer::make(device, static_cast<size_t>(kPieces * kPiece), &memory));
  SILT_TRY(gpu::fill_uniform(device, memory.data(), DType::f32, kPieces * kPiece / 4, -1, 1, 9));
  Field field(device, *settings);
  SILT_TRY(field.add("copy", Mode::graph, kPieces / 2, [&](int64_t i, const Launch& l) {
    return gpu::launch_copy(memory.data() + (kPieces / 2 + i) * kPiece, memory.data() + i * kPiece, kPiece, device, l);
  }));
  SILT_TRY(field.add("read", Mode::graph, kPieces, [&](int64_t i, const Launch& l) {
    return gpu::launch_read(memory.data() + i * kPiece, kPiece, device, l);
  }));
  SILT_TRY(field.run([](double) {}));
  const auto gbs = [&](const char* name, double bytes) { return bytes / field.fastest(Mode::graph, {name}) * 1e-3; };
  settings->device_copy_gbs = gbs("copy", 2.0 * kPiece);
  settings->device_read_gbs = gbs("read", 1.0 * kPiece);
  return {};
}

}  // namespace silt::bench
