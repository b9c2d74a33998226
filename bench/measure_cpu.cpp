// The CPU protocol: pinned workers, kernels, movers and ceilings in one contest on the same number of bytes. Cold:
// every contestant rotates over the input sets from an offset of its own, so that none finds what another left in the
// caches. Warm: one set, and an untimed launch before each sample.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "bench/ceilings.hpp"
#include "bench/measure.hpp"
#include "core/status.hpp"
#include "core/workers.hpp"

namespace silt::bench {
namespace {

using LaunchSet = std::function<Status(int64_t set)>;

/// The state behind one contestant's samples.
struct Rotation {
  LaunchSet launch;
  int64_t sets = 1;
  int64_t next = 0;
  int64_t per_sample = 1;
  bool warm = false;

  Status once() { return launch(next++ % sets); }
  Status sample(double* us) {
    if (warm) SILT_TRY(once());
    const double start = now_us();
    for (int64_t i = 0; i < per_sample; ++i) SILT_TRY(once());
    *us = (now_us() - start) / static_cast<double>(per_sample);
    return {};
  }
};

/// Contestants of one mode of a cell.
class Field {
 public:
  Field(const Settings& settings, bool warm) : settings_(settings), warm_(warm) {}

  void add(std::string name, int64_t sets, LaunchSet launch) {
    auto rotation = std::make_shared<Rotation>();
    rotation->launch = std::move(launch);
    rotation->sets = sets;
    rotation->warm = warm_;
    rotations_.push_back(rotation);
    contestants_.push_back({std::move(name), [rotation](double* us) { return rotation->sample(us); }});
  }

  Status run(const std::function<void(double)>& progress) {
    for (size_t i = 0; i < rotations_.size(); ++i) {
      Rotation& rotation = *rotations_[i];
      rotation.next = static_cast<int64_t>(i) * rotation.sets / static_cast<int64_t>(rotations_.size());
      // The first launch faults pages in and starts workers; the second tells how long one takes.
      SILT_TRY(rotation.once());
      double us = 0;
      SILT_TRY(rotation.sample(&us));
      rotation.per_sample = launches_per_sample(settings_.sample_us, us);
    }
    return run_contest(contestants_, settings_.samples, progress);
  }

  [[nodiscard]] const std::vector<Contestant>& contestants() const { return contestants_; }
  [[nodiscard]] int64_t sets(size_t i) const { return rotations_[i]->sets; }
  [[nodiscard]] int64_t launches(size_t i) const { return rotations_[i]->per_sample; }
  [[nodiscard]] double p(std::string_view name, double fraction) const {
    for (const Contestant& c : contestants_) {
      if (c.name == name) return percentile(c.samples_us, fraction);
    }
    return std::numeric_limits<double>::quiet_NaN();
  }

 private:
  const Settings& settings_;
  bool warm_;
  std::vector<std::shared_ptr<Rotation>> rotations_;
  std::vector<Contestant> contestants_;
};

Launch launch_of(const Settings& settings) {
  Launch launch;
  launch.threads = settings.threads;
  return launch;
}

Status verify_kernels(const Cell& cell, const Settings& settings, Subject& subject,
                      std::map<std::string, std::string>* verified) {
  for (const std::string& kernel : cell.kernels) {
    Verified found;
    SILT_TRY(subject.verify(kernel, launch_of(settings), &found));
    if (!found.verdict.ok) {
      return failed(StatusCode::device_error, "{}: {}: wrong result, not timed: {}", cell.line, kernel,
                    found.verdict.detail);
    }
    (*verified)[kernel] = found.what;
  }
  return {};
}

void add_ceilings(Field& field, const Settings& settings, CeilingMemory& memory, bool warm) {
  const int threads = settings.threads;
  field.add(std::string(kFloor), 1, [threads](int64_t) {
    parallel_ranges(threads, threads, [](int64_t, int64_t) {});
    return Status{};
  });
  for (const std::string_view ceiling : {kCopy, kCopyNt, kInPlace, kRead}) {
    if (warm && ceiling == kCopyNt) continue;
    field.add(std::string(ceiling), memory.regions(), [&memory, ceiling, threads](int64_t region) {
      memory.run(ceiling, region, threads);
      return Status{};
    });
  }
}

/// One row of the plan from what the field measured.
Result make_result(const Cell& cell, Mode mode, const Field& field, size_t i) {
  const Contestant& contestant = field.contestants()[i];
  Result result;
  result.op = cell.op;
  result.problem = cell.line;
  result.kernel = contestant.name;
  result.mode = mode;
  result.samples_us = contestant.samples_us;
  result.us = percentiles(contestant.samples_us);
  result.sets = field.sets(i);
  result.launches = field.launches(i);
  return result;
}

Status measure_mode(const Cell& cell, Mode mode, const Settings& settings, Subject& subject,
                    const std::function<void(double)>& progress, std::vector<Result>* results) {
  const bool warm = mode == Mode::cpu_warm;
  const int64_t sets = sets_needed(subject, settings, warm, 2);
  SILT_TRY(subject.make_sets(cell.device, sets));
  std::map<std::string, std::string> verified;
  SILT_TRY(verify_kernels(cell, settings, subject, &verified));

  Field field(settings, warm);
  const Launch launch = launch_of(settings);
  for (const std::string& kernel : cell.kernels) {
    field.add(kernel, sets, [&subject, kernel, launch](int64_t set) { return subject.launch(kernel, set, launch); });
  }
  std::vector<std::string> movers;
  std::map<std::string, double> own_bytes;  // of what is no kernel
  for (const Mover& mover : subject.movers(DeviceKind::cpu)) {
    movers.push_back(mover.name);
    own_bytes[mover.name] = mover.bytes;
    field.add(mover.name, sets, [mover, launch](int64_t set) { return mover.launch(set, launch); });
  }
  const int64_t span = std::min(settings.cold_bytes, settings.memory_bytes);
  CeilingMemory memory(subject.bytes(), warm ? 1 : std::max<int64_t>(2, span / std::max<int64_t>(subject.bytes(), 1)));
  add_ceilings(field, settings, memory, warm);
  SILT_TRY(field.run(progress));

  const auto bytes = static_cast<double>(subject.bytes());
  const auto ceiling_bytes = static_cast<double>(memory.bytes());
  for (const std::string_view ceiling : {kCopy, kCopyNt, kInPlace, kRead}) {
    own_bytes[std::string(ceiling)] = ceiling_bytes;
  }
  for (size_t i = 0; i < field.contestants().size(); ++i) {
    Result result = make_result(cell, mode, field, i);
    result.bytes = own_bytes[result.kernel];
    if (i < cell.kernels.size()) {
      result.bytes = bytes;
      result.flops = static_cast<double>(subject.flops());
      result.verified = verified[result.kernel];
      result.floor_us = field.p(kFloor, 0.5);
      result.probe_us = detail::fastest_p50(field.contestants(), movers);
      if (!warm) {
        const double scale = bytes / ceiling_bytes;
        result.copy_fraction = field.p(kCopyNt, 0.5) * scale / result.us.p50;
        result.copy_fraction_p20 = field.p(kCopyNt, 0.2) * scale / result.us.p20;
      }
    }
    results->push_back(std::move(result));
  }
  // The timed launches changed the sets in place; what the kernels make of them must still be right.
  return verify_kernels(cell, settings, subject, &verified);
}

}  // namespace

Status detail::measure_cpu(const Cell& cell, const Settings& settings, Subject& subject,
                           const std::function<void(double)>& progress, std::vector<Result>* results) {
  const auto count = static_cast<double>(cell.modes.size());
  for (size_t i = 0; i < cell.modes.size(); ++i) {
    const auto part = [&](double share) { progress((static_cast<double>(i) + share) / count); };
    SILT_TRY(measure_mode(cell, cell.modes[i], settings, subject, part, results));
  }
  return {};
}

}  // namespace silt::bench
