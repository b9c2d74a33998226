#include "bench/measure.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>

#include "silt/device.hpp"

#include "bench/gpu_protocol.hpp"
#include "bench/hip/hip_protocol.hpp"
#include "core/status.hpp"
#include "core/workers.hpp"

namespace silt::bench {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

/// Of the cores this process sees. sysconf adds up the whole package, neighbours' shares included.
int64_t last_level_cache() {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size");
  int64_t kib = 0;
  char unit = 0;
  if (file >> kib >> unit && unit == 'K') return kib * 1024;
  return std::max<int64_t>(sysconf(_SC_LEVEL3_CACHE_SIZE), 0);
}

bool is_cpu(Mode mode) { return mode == Mode::cpu || mode == Mode::cpu_warm; }

}  // namespace

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Status default_settings(Device device, int threads, Settings* settings) {
  DeviceFacts facts;
  SILT_TRY(device_facts(device, &facts));
  *settings = {};
  settings->threads = resolve_threads(threads);
  if (device.kind == DeviceKind::cpu) {
    settings->sample_us = 1000;
    settings->cold_bytes = std::max<int64_t>(256 * kMiB, 2 * last_level_cache());
    settings->memory_bytes = 3072 * kMiB;
    return {};
  }
  settings->sample_us = 2000;
  settings->cold_bytes = facts.l2_bytes * 5 / 2;
  int64_t free = 0;
  SILT_TRY(device.kind == DeviceKind::hip ? hip_gpu::free_memory(device, &free) : gpu::free_memory(device, &free));
  settings->memory_bytes = free * 6 / 10;
  return {};
}

Plan plan(const Cell& cell, Subject& subject) {
  Plan plan;
  for (const Mode mode : cell.modes) {
    for (const std::string& kernel : cell.kernels) plan.rows.push_back({kernel, mode, true});
    const std::vector<Mover> movers = detail::movers_of(subject, cell.device.kind);
    if (is_cpu(mode)) {
      for (const Mover& mover : movers) plan.rows.push_back({mover.name, mode, false});
    } else if (!movers.empty()) {
      plan.rows.push_back({std::string(kMover), mode, false});
    }
    if (cell.device.kind != DeviceKind::hip) plan.rows.push_back({std::string(kFloor), mode, false});
    if (!is_cpu(mode)) continue;
    for (const std::string_view ceiling : {kCopy, kCopyNt, kInPlace, kRead}) {
      if (mode == Mode::cpu_warm && ceiling == kCopyNt) continue;  // goes past the caches by design
      plan.rows.push_back({std::string(ceiling), mode, false});
    }
  }
  return plan;
}

int64_t sets_needed(const Subject& subject, const Settings& settings, bool warm, int64_t least) {
  if (warm) return 1;
  const int64_t cold = (settings.cold_bytes + subject.live_bytes() - 1) / subject.live_bytes();
  const int64_t most = settings.memory_bytes / subject.set_bytes();
  if (settings.span_bytes > 0) {
    const int64_t span = (settings.span_bytes + subject.bytes() - 1) / subject.bytes();
    return std::max<int64_t>(1, std::min(std::max<int64_t>(3, span), most));
  }
  return std::max<int64_t>(1, std::min(std::max(least, cold), most));
}

std::vector<Mover> detail::movers_of(Subject& subject, DeviceKind device) {
  return device == DeviceKind::hip ? std::vector<Mover>() : subject.movers(device);
}

double detail::fastest_p50(const std::vector<Contestant>& contestants, const std::vector<std::string>& names) {
  double best = std::numeric_limits<double>::quiet_NaN();
  for (const Contestant& contestant : contestants) {
    if (std::find(names.begin(), names.end(), contestant.name) == names.end()) continue;
    const double p50 = percentile(contestant.samples_us, 0.5);
    if (!(best <= p50)) best = p50;
  }
  return best;
}

Status measure(const Cell& cell, const Settings& settings, const std::function<void(double)>& progress,
               std::vector<Result>* results) {
  std::unique_ptr<Subject> subject;
  SILT_TRY(make_subject(cell.line, &subject));
  if (settings.share_activations) SILT_TRY(subject->share_activations());
  if (settings.memory_bytes < subject->set_bytes()) {
    return failed(StatusCode::out_of_memory, "{}: memory: has {} MiB, needs {} for one set", cell.line,
                  settings.memory_bytes / kMiB, subject->set_bytes() / kMiB + 1);
  }
  return cell.device.kind == DeviceKind::cpu ? detail::measure_cpu(cell, settings, *subject, progress, results)
                                             : detail::measure_gpu(cell, settings, *subject, progress, results);
}

}  // namespace silt::bench
