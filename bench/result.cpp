#include "bench/result.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <utility>

#include "core/status.hpp"

namespace silt::bench {
namespace {

constexpr std::array<std::pair<Mode, std::string_view>, 6> kModes = {{{Mode::cpu, "cpu"},
                                                                      {Mode::cpu_warm, "cpu-warm"},
                                                                      {Mode::graph, "graph"},
                                                                      {Mode::graph_late, "graph-late"},
                                                                      {Mode::graph_nopdl, "graph-nopdl"},
                                                                      {Mode::eager, "eager"}}};

std::string number(std::optional<double> value, int digits) {
  if (!value.has_value() || !std::isfinite(*value)) return "";
  return fmt::format("{:.{}f}", *value, digits);
}

}  // namespace

std::string_view to_string(Mode mode) {
  for (const auto& [value, name] : kModes) {
    if (value == mode) return name;
  }
  return "unknown";
}

bool parse_mode(std::string_view text, Mode* mode) {
  for (const auto& [value, name] : kModes) {
    if (name != text) continue;
    *mode = value;
    return true;
  }
  return false;
}

std::string mode_names() {
  std::string names;
  for (const auto& [value, name] : kModes) names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  return names;
}

std::string row_name(std::string_view problem, std::string_view kernel, Mode mode) {
  return fmt::format("{}/{}/{}", problem, kernel, to_string(mode));
}

std::string Result::name() const { return row_name(problem, kernel, mode); }

std::string csv_header() {
  return "operator,problem,kernel,mode,p20_us,p50_us,p80_us,gbs,copy_fraction,floor_us,probe_us,peer_us,commit";
}

std::string csv_row(const Result& r, std::string_view commit) {
  return fmt::format("{},{},{},{},{},{},{},{},{},{},{},,{}", r.op, r.problem, r.kernel, to_string(r.mode),
                     number(r.us.p20, 3), number(r.us.p50, 3), number(r.us.p80, 3), number(r.gbs(), 1),
                     number(r.copy_fraction, 3), number(r.floor_us, 3), number(r.probe_us, 3), commit);
}

Status write_csv(const std::string& path, const std::vector<Result>& results, std::string_view commit) {
  std::ofstream file(path);
  file << csv_header() << '\n';
  for (const Result& result : results) file << csv_row(result, commit) << '\n';
  file.close();
  if (!file) return failed(StatusCode::io_error, "--csv: {} cannot be written: {}", path, std::strerror(errno));
  return {};
}

}  // namespace silt::bench
