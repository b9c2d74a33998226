// The named sets of problems: what docs/results/ consists of.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "silt/tensor.hpp"

#include "bench/result.hpp"

namespace silt::bench {

struct SetEntry {
  std::string line;
  std::vector<Mode> modes;
};

struct NamedSet {
  std::string_view name;
  std::string_view what;
  DeviceKind device = DeviceKind::cpu;
  /// Every kernel of the device, or only the one that a call would take (and the baselines).
  bool every_kernel = true;
  std::vector<SetEntry> entries;
};

/// Lines of operators that have no room in silt-bench are an error when the set is run, not before.
const std::vector<NamedSet>& named_sets();

}  // namespace silt::bench
