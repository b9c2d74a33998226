#include "bench/runner.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>

#include "silt/device.hpp"

#include "bench/build_commit.hpp"
#include "bench/ceilings.hpp"
#include "bench/gpu_protocol.hpp"
#include "bench/hip/hip_protocol.hpp"
#include "bench/progress.hpp"
#include "core/status.hpp"

namespace silt::bench {
namespace {

/// A cell and what became of it. It is measured when the first of its rows runs.
struct Entry {
  Cell cell;
  size_t index = 0;
  Plan plan;
  bool measured = false;
  Status status;
  std::vector<Result> results;  ///< in the order of the plan
};

class Run {
 public:
  Run(const std::vector<Cell>& cells, Settings settings, bool quiet)
      : settings_(settings), progress_(cells.size(), quiet) {
    for (const Cell& cell : cells) {
      entries_.push_back(std::make_unique<Entry>());
      entries_.back()->cell = cell;
      entries_.back()->index = entries_.size() - 1;
    }
  }

  Status register_rows() {
    for (const auto& entry : entries_) {
      std::unique_ptr<Subject> subject;
      SILT_TRY(make_subject(entry->cell.line, &subject));
      entry->plan = plan(entry->cell, *subject);
      for (size_t row = 0; row < entry->plan.rows.size(); ++row) register_row(*entry, row);
    }
    return {};
  }

  [[nodiscard]] bool failed() const { return failed_; }
  void finish() { progress_.clear(); }

  /// The kernels' rows: what summary.csv holds.
  [[nodiscard]] std::vector<Result> kernel_results() const {
    std::vector<Result> all;
    for (const auto& entry : entries_) {
      for (size_t row = 0; row < entry->results.size(); ++row) {
        if (entry->plan.rows[row].is_kernel) all.push_back(entry->results[row]);
      }
    }
    return all;
  }

 private:
  void register_row(Entry& entry, size_t row) {
    const Plan::Row& planned = entry.plan.rows[row];
    const std::string name = row_name(entry.cell.line, planned.kernel, planned.mode);
    auto next = std::make_shared<size_t>(0);
    benchmark::RegisterBenchmark(name.c_str(),
                                 [this, &entry, row, next](benchmark::State& state) {
                                   measure_once(entry);
                                   if (!entry.status.ok()) {
                                     state.SkipWithError(entry.status.message().c_str());
                                     return;
                                   }
                                   replay(state, entry.results[row], (*next)++);
                                 })
        ->UseManualTime()
        ->Iterations(1)
        ->Repetitions(settings_.samples)
        ->Unit(benchmark::kMicrosecond)
        ->ComputeStatistics("p20", [](const std::vector<double>& v) { return percentile(v, 0.2); })
        ->ComputeStatistics("p50", [](const std::vector<double>& v) { return percentile(v, 0.5); })
        ->ComputeStatistics("p80", [](const std::vector<double>& v) { return percentile(v, 0.8); });
  }

  /// Repetition i of a row: its sample becomes the time, everything else a counter.
  static void replay(benchmark::State& state, const Result& result, size_t i) {
    for ([[maybe_unused]] auto unused : state) state.SetIterationTime(result.samples_us.at(i) * 1e-6);
    const auto count = [&](const char* name, std::optional<double> value) {
      if (value.has_value() && std::isfinite(*value)) state.counters[name] = *value;
    };
    count("bytes", result.bytes);
    count("flops", result.flops);
    count("gbs", result.gbs());
    count("copy_fraction", result.copy_fraction);
    count("copy_fraction_p20", result.copy_fraction_p20);
    count("floor_us", result.floor_us);
    count("probe_us", result.probe_us);
    count("sets", static_cast<double>(result.sets));
    count("launches", static_cast<double>(result.launches));
    state.SetLabel(result.verified.empty() ? result.note : "verified: " + result.verified);
  }

  void measure_once(Entry& entry) {
    if (entry.measured) return;
    entry.measured = true;
    progress_.begin(entry.index, entry.cell.line);
    entry.status = measure(
        entry.cell, settings_, [this](double share) { progress_.update(share); }, &entry.results);
    progress_.clear();
    if (!entry.status.ok()) {
      failed_ = true;
      entry.results.clear();
      fmt::print(stderr, "silt-bench: {}\n", entry.status.message());
      return;
    }
    print(entry);
  }

  static void print(const Entry& entry) {
    std::string text = entry.cell.line + "\n";
    for (const Result& r : entry.results) {
      std::string rest;
      if (r.bytes > 0) rest += fmt::format("  {:8.1f} GB/s", r.gbs());
      if (r.copy_fraction.has_value()) rest += fmt::format("  {:.2f} of copy", *r.copy_fraction);
      if (r.probe_us.has_value() && std::isfinite(*r.probe_us)) {
        rest += fmt::format("  {:.2f} of probe", *r.probe_us / r.us.p50);
      }
      text += fmt::format("  {:<24} {:<12} p20 {:10.2f}  p50 {:10.2f}  p80 {:10.2f} us{}\n", r.kernel,
                          to_string(r.mode), r.us.p20, r.us.p50, r.us.p80, rest);
    }
    // A failure is told at the end of the program: what is measured shall reach the files all the same.
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  Settings settings_;
  Progress progress_;
  std::vector<std::unique_ptr<Entry>> entries_;
  bool failed_ = false;
};

/// Google Benchmark's own table would print every repetition; Run::print has said it all.
class Silent : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<benchmark::BenchmarkReporter::Run>&) override {}
};

std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

Status add_context(Device device, const Settings& settings) {
  DeviceFacts facts;
  SILT_TRY(device_facts(device, &facts));
  const gpu::Versions versions =
      device.kind == DeviceKind::hip ? gpu::Versions{hip_gpu::driver(), "none"} : gpu::versions();
  const auto add = [](const char* key, const std::string& value) { benchmark::AddCustomContext(key, value); };
  add("protocol", fmt::format("{}", kProtocolVersion));
  add("device", to_string(facts));
  add("device_folder", device_folder(facts.name));
  add("driver", versions.driver);
  add("toolkit", versions.toolkit);
  add("compiler", compiler());
  add("commit", std::string(commit()));
  add("silt_version", std::string(version()));
  add("threads", fmt::format("{}", settings.threads));
  add("sample_us", fmt::format("{:.0f}", settings.sample_us));
  add("cold_mib", fmt::format("{}", settings.cold_bytes >> 20));
  if (settings.span_bytes > 0) add("span_mb", fmt::format("{}", settings.span_bytes / 1'000'000));
  if (settings.share_activations) add("activations", "shared by the sets");
  if (device.kind == DeviceKind::cpu) {
    std::vector<double> rates;
    for (int i = 0; i < 15; ++i) rates.push_back(multiply_add_rate(settings.threads, 5000));
    add("fma_gflops", fmt::format("{:.1f}", percentile(rates, 0.5)));
  } else {
    add("device_copy_gbs", fmt::format("{:.0f}", settings.device_copy_gbs));
    if (device.kind != DeviceKind::hip) add("device_read_gbs", fmt::format("{:.0f}", settings.device_read_gbs));
  }
  return {};
}

Status prepare(Device device, const RunOptions& options, Settings* settings) {
  SILT_TRY(default_settings(device, options.threads, settings));
  settings->samples = options.samples;
  if (options.sample_us > 0) settings->sample_us = options.sample_us;
  settings->span_bytes = static_cast<int64_t>(options.span_mb * 1e6);
  settings->share_activations = options.share_activations;
  if (options.memory_gib > 0) settings->memory_bytes = static_cast<int64_t>(options.memory_gib * 0x1p30);
  if (device.kind == DeviceKind::cpu) return pin_workers(settings->threads);
  return measure_device_ceilings(device, settings);
}

/// Google Benchmark wants a command line, and keeps the pointer to its first word.
void initialize() {
  static char name[] = "silt-bench";
  char* arguments[] = {name};
  int count = 1;
  benchmark::Initialize(&count, arguments);
}

/// Runs what is registered. The JSON goes out by a stream of ours, since the library's own file fails in silence.
Status run_registered(const std::string& json) {
  if (json.empty()) {
    Silent silent;
    benchmark::RunSpecifiedBenchmarks(&silent);
    return {};
  }
  std::ofstream file(json);
  if (!file) return failed(StatusCode::io_error, "--json: {} cannot be opened: {}", json, std::strerror(errno));
  benchmark::JSONReporter reporter;
  reporter.SetOutputStream(&file);
  reporter.SetErrorStream(&std::cerr);
  benchmark::RunSpecifiedBenchmarks(&reporter);
  file.close();
  if (!file) return failed(StatusCode::io_error, "--json: {} cannot be written: {}", json, std::strerror(errno));
  return {};
}

}  // namespace

std::string_view commit() { return kBuildCommit; }

std::string device_folder(std::string_view name) {
  std::string folder;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      folder += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!folder.empty() && folder.back() != '-') {
      folder += '-';
    }
  }
  while (folder.ends_with('-')) folder.pop_back();
  constexpr std::string_view kVendor = "nvidia-";
  return folder.starts_with(kVendor) ? folder.substr(kVendor.size()) : folder;
}

int run_cells(const std::vector<Cell>& cells, const RunOptions& options) {
  const Device device = cells.front().device;
  Settings settings;
  Status status = prepare(device, options, &settings);
  initialize();
  Run run(cells, settings, options.quiet);
  if (status.ok()) status = add_context(device, settings);
  if (status.ok()) status = run.register_rows();
  if (!status.ok()) {
    fmt::print(stderr, "silt-bench: {}\n", status.message());
    return 1;
  }
  const Status written[] = {
      run_registered(options.json),
      options.csv.empty() ? Status() : write_csv(options.csv, run.kernel_results(), commit()),
  };
  run.finish();
  benchmark::Shutdown();
  bool failed = run.failed();
  for (const Status& file : written) {
    if (file.ok()) continue;
    fmt::print(stderr, "silt-bench: {}\n", file.message());
    failed = true;
  }
  return failed ? 1 : 0;
}

}  // namespace silt::bench
