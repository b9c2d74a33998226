#include "bench/select.hpp"

#include <regex.h>

#include <algorithm>
#include <array>

#include "bench/sets.hpp"
#include "core/status.hpp"

namespace silt::bench {
namespace {

/// A POSIX extended regular expression. (GCC 12 warns inside std::regex where sanitizers are on.)
class Pattern {
 public:
  Pattern() = default;
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;
  ~Pattern() {
    if (compiled_) regfree(&pattern_);
  }
  Status compile(const std::string& text) {
    if (text.empty()) return {};  // matches everything
    const int error = regcomp(&pattern_, text.c_str(), REG_EXTENDED | REG_NOSUB);
    compiled_ = error == 0;
    if (compiled_) return {};
    std::array<char, 128> reason{};
    regerror(error, &pattern_, reason.data(), reason.size());
    return invalid("filter: has \"{}\", needs a regular expression ({})", text, reason.data());
  }
  [[nodiscard]] bool found_in(const std::string& text) const {
    return !compiled_ || regexec(&pattern_, text.c_str(), 0, nullptr, 0) == 0;
  }

 private:
  regex_t pattern_{};
  bool compiled_ = false;
};

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_reference(std::string_view kernel) { return kernel.ends_with("_reference"); }

/// One problem with everything that narrows it.
struct Wanted {
  std::string line;
  std::vector<Mode> modes;
  Device device;
  Kernels kernels = Kernels::all;
};

Status parse_device(const std::string& text, Device* device) {
  if (text == "cpu") {
    *device = {};
    return {};
  }
  int64_t index = 0;
  if (text == "cuda" || (text.starts_with("cuda:") && parse_number(text.substr(5), &index) && index >= 0)) {
    *device = {DeviceKind::cuda, static_cast<int32_t>(index)};
    return {};
  }
  if (text == "hip" || (text.starts_with("hip:") && parse_number(text.substr(4), &index) && index >= 0)) {
    *device = {DeviceKind::hip, static_cast<int32_t>(index)};
    return {};
  }
  return invalid("device: has \"{}\", needs cpu, cuda, cuda:N, hip or hip:N", text);
}

Status find_set(const std::string& name, const NamedSet** set) {
  std::string known;
  for (const NamedSet& entry : named_sets()) {
    if (entry.name == name) {
      *set = &entry;
      return {};
    }
    known += fmt::format("{}{}", known.empty() ? "" : ", ", entry.name);
  }
  return invalid("set: has \"{}\", needs one of {}", name, known);
}

Status check_mode(Mode mode, Device device) {
  const bool cpu = mode == Mode::cpu || mode == Mode::cpu_warm;
  if (device.kind == DeviceKind::hip && mode != Mode::eager) {
    return invalid("mode: has {}, needs eager (the one there is for AMD devices)", to_string(mode));
  }
  if (cpu == (device.kind == DeviceKind::cpu)) return {};
  return invalid("mode: has {}, needs one of the {} modes", to_string(mode),
                 device.kind == DeviceKind::cpu ? "cpu" : "GPU");
}

Mode standard_mode(DeviceKind device) {
  if (device == DeviceKind::hip) return Mode::eager;
  return device == DeviceKind::cpu ? Mode::cpu : Mode::graph;
}

/// The modes asked for, where none are the entry's own.
Status narrow_modes(const Selection& selection, Wanted* wanted) {
  if (selection.modes.empty()) return {};
  std::vector<Mode> kept;
  for (const std::string& name : selection.modes) {
    Mode mode{};
    if (!parse_mode(name, &mode)) return invalid("mode: has \"{}\", needs one of {}", name, mode_names());
    SILT_TRY(check_mode(mode, wanted->device));
    const bool own = std::find(wanted->modes.begin(), wanted->modes.end(), mode) != wanted->modes.end();
    if (own || wanted->modes.empty()) kept.push_back(mode);
  }
  wanted->modes = kept;
  if (kept.empty()) wanted->line.clear();  // nothing of this entry was asked for
  return {};
}

Status gather(const Selection& selection, std::vector<Wanted>* all) {
  for (const std::string& name : selection.sets) {
    const NamedSet* set = nullptr;
    SILT_TRY(find_set(name, &set));
    Device device{set->device, 0};
    if (!selection.device.empty()) SILT_TRY(parse_device(selection.device, &device));
    if (device.kind != set->device) {
      return invalid("device: has {}, needs {} (set {})", selection.device,
                     set->device == DeviceKind::cpu ? "cpu" : "cuda", name);
    }
    for (const SetEntry& entry : set->entries) all->push_back({entry.line, entry.modes, device, set->kernels});
  }
  for (const std::string& line : selection.problems) {
    Device device{};
    if (!selection.device.empty()) SILT_TRY(parse_device(selection.device, &device));
    all->push_back({line, {}, device, Kernels::all});
  }
  if (all->empty() && selection.list_only) {  // everything there is
    for (const NamedSet& set : named_sets()) {
      for (const SetEntry& entry : set.entries) {
        all->push_back({entry.line, entry.modes, {set.device, 0}, set.kernels});
      }
    }
  }
  if (all->empty()) return invalid("nothing to measure: needs --set NAME or --problem LINE");
  for (Wanted& wanted : *all) {
    SILT_TRY(narrow_modes(selection, &wanted));
    if (wanted.modes.empty() && !wanted.line.empty()) {
      wanted.modes.push_back(standard_mode(wanted.device.kind));
    }
  }
  return {};
}

/// Facts for the choice: of the device at hand, or of a canned one where only names are asked for.
Status facts_for(const Selection& selection, Device device, DeviceFacts* facts) {
  const Status status = device_facts(device, facts);
  if (status.ok() || !selection.list_only) return status;
  return canned_facts("h200", facts);
}

/// Names that may be meant for a cell, before predicates are asked.
Status candidates(const Selection& selection, const Wanted& wanted, std::string_view op, const DeviceFacts& facts,
                  std::vector<std::string>* names, std::vector<Refusal>* refusals) {
  const Room* room = nullptr;
  SILT_TRY(find_room(op, &room));
  const bool warm = std::find(wanted.modes.begin(), wanted.modes.end(), Mode::cpu_warm) != wanted.modes.end();
  std::vector<std::string> known;
  for (const KernelInfo& info : kernels(op)) {
    if (info.device == wanted.device.kind) known.emplace_back(info.name);
  }
  for (const Baseline& baseline : room->baselines) {
    if (baseline.device == wanted.device.kind) known.emplace_back(baseline.name);
  }
  const bool by_set = selection.kernels.empty();
  const bool all = contains(selection.kernels, "all") || (by_set && wanted.kernels == Kernels::all);
  std::string chosen;
  if (contains(selection.kernels, "auto") || (by_set && wanted.kernels != Kernels::all)) {
    Explanation explanation;
    const Status status = explain(wanted.line, facts, {}, &explanation);
    if (status.code() == StatusCode::unsupported) refusals->push_back({wanted.line, "auto", status.message()});
    if (!status.ok() && status.code() != StatusCode::unsupported) return status;
    chosen = explanation.kernel;
  }
  for (const std::string& name : known) {
    const auto baseline =
        std::find_if(room->baselines.begin(), room->baselines.end(), [&](const Baseline& b) { return b.name == name; });
    const bool is_baseline = baseline != room->baselines.end();
    // The reference is slow; in-cache cells are small, and there it is the scalar row of the table.
    bool measured = name == chosen || contains(selection.kernels, name);
    measured |= !is_baseline && (is_reference(name) ? by_set && warm : all);
    measured |=
        is_baseline && (all || by_set) && wanted.kernels != Kernels::only_chosen && (warm || !baseline->warm_only);
    if (measured) names->push_back(name);
  }
  return {};
}

/// Every kernel named must be one of some operator.
Status check_kernel_names(const Selection& selection) {
  std::string known = "all, auto";
  std::vector<std::string> names = {"all", "auto"};
  for (const Room& room : rooms()) {
    for (const KernelInfo& info : kernels(room.op)) names.emplace_back(info.name);
    for (const Baseline& baseline : room.baselines) names.emplace_back(baseline.name);
  }
  for (size_t i = 2; i < names.size(); ++i) known += ", " + names[i];
  for (const std::string& name : selection.kernels) {
    if (!contains(names, name)) return invalid("kernel: has \"{}\", needs one of {}", name, known);
  }
  for (const std::string& op : selection.ops) {
    const Room* room = nullptr;
    SILT_TRY(find_room(op, &room));
  }
  return {};
}

/// Whether a kernel or baseline takes a problem; unsupported, with the reason, where not.
Status accepts(const Room& room, std::string_view name, const std::string& line, const DeviceFacts& facts) {
  for (const Baseline& baseline : room.baselines) {
    if (baseline.name != name || baseline.device != facts.kind) continue;
    return baseline.accepts == nullptr ? Status{} : baseline.accepts(name, line, facts);
  }
  Explanation explanation;
  return explain(line, facts, Policy::require(name), &explanation);
}

/// Keeps the kernels of a cell that take the problem and whose row passes the filter in some mode.
Status make_cell(const Selection& selection, const Wanted& wanted, const Pattern& filter, Selected* selected) {
  ProblemLine line;
  SILT_TRY(parse_line(wanted.line, &line));
  if (!selection.ops.empty() && !contains(selection.ops, line.op)) return {};
  std::unique_ptr<Subject> subject;
  SILT_TRY(make_subject(wanted.line, &subject));
  DeviceFacts facts;
  SILT_TRY(facts_for(selection, wanted.device, &facts));
  const Room* room = nullptr;
  SILT_TRY(find_room(line.op, &room));
  std::vector<std::string> names;
  SILT_TRY(candidates(selection, wanted, line.op, facts, &names, &selected->refusals));

  // Modes are filtered one by one, so a cell is cut into one per mode where the filter tells them apart.
  std::vector<Cell> cells;
  for (const Mode mode : wanted.modes) {
    SILT_TRY(check_mode(mode, wanted.device));
    Cell cell{line.op, subject->line(), wanted.device, {mode}, {}};
    for (const std::string& name : names) {
      if (!filter.found_in(row_name(cell.line, name, mode))) continue;
      const Status status = accepts(*room, name, cell.line, facts);
      if (status.code() == StatusCode::unsupported) {
        selected->refusals.push_back({cell.line, name, status.message()});
        continue;
      }
      SILT_TRY(status);
      cell.kernels.push_back(name);
    }
    if (cell.kernels.empty()) continue;
    if (!cells.empty() && cells.back().kernels == cell.kernels) {
      cells.back().modes.push_back(mode);
    } else {
      cells.push_back(std::move(cell));
    }
  }
  for (Cell& cell : cells) selected->cells.push_back(std::move(cell));
  return {};
}

}  // namespace

Status select(const Selection& selection, Selected* selected) {
  SILT_TRY(check_kernel_names(selection));
  Pattern filter;
  SILT_TRY(filter.compile(selection.filter));
  std::vector<Wanted> all;
  SILT_TRY(gather(selection, &all));
  for (const Wanted& wanted : all) {
    if (!wanted.line.empty()) SILT_TRY(make_cell(selection, wanted, filter, selected));
  }
  if (selected->cells.empty()) {
    std::string reason = "no row passes the filters";
    if (!selected->refusals.empty()) reason = selected->refusals.front().reason;
    return invalid("nothing to measure: {}", reason);
  }
  return {};
}

}  // namespace silt::bench
