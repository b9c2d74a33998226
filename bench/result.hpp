// One measured row, and the table summary.csv.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "silt/status.hpp"

#include "bench/statistics.hpp"

namespace silt::bench {

/// The protocol of docs/measuring.md that a number was taken under; a change of method counts it up.
constexpr int kProtocolVersion = 1;

/// How a kernel is launched and what its caches hold.
enum class Mode {
  cpu,          ///< pinned threads, inputs beyond the last-level cache
  cpu_warm,     ///< the same, one set of inputs over and over: the in-cache series
  graph,        ///< one CUDA graph of many launches, Pdl::wait
  graph_late,   ///< Pdl::late
  graph_nopdl,  ///< Pdl::off
  eager,        ///< launch by launch on a stream, Pdl::wait
};
std::string_view to_string(Mode mode);
/// False where there is no such mode.
bool parse_mode(std::string_view text, Mode* mode);
/// "cpu, cpu-warm, ...", for messages.
std::string mode_names();

struct Result {
  std::string op;
  std::string problem;  ///< the problem line
  std::string kernel;
  Mode mode = Mode::cpu;
  std::vector<double> samples_us;  ///< per launch
  Percentiles us;
  double bytes = 0;
  double flops = 0;
  std::optional<double> copy_fraction;      ///< of the copy of the same run (GPU: device copy; CPU: non-temporal), p50
  std::optional<double> copy_fraction_p20;  ///< the same of the p20 figures, which a shared machine disturbs less
  std::optional<double> floor_us;           ///< empty kernel, launched the same way
  std::optional<double> probe_us;           ///< the operator's bytes moved and nothing else
  int64_t sets = 0;                         ///< input sets that the launches rotated over
  int64_t launches = 0;                     ///< launches per sample
  std::string verified;                     ///< which rows were compared with the oracle

  [[nodiscard]] double gbs() const { return bytes / us.p50 * 1e-3; }
  /// "<problem>/<kernel>/<mode>": what --filter matches and --list prints.
  [[nodiscard]] std::string name() const;
};

std::string row_name(std::string_view problem, std::string_view kernel, Mode mode);

std::string csv_header();
/// A number that is not there is an empty field. peer_us is filled in by scripts/bench where the peer ran.
std::string csv_row(const Result& result, std::string_view commit);
/// io_error names the file.
Status write_csv(const std::string& path, const std::vector<Result>& results, std::string_view commit);

}  // namespace silt::bench
