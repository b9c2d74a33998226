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

/// Which kernels are measured where a command line names none.
enum class Kernels {
  all,     ///< every kernel of the device but the reference, and the baselines
  chosen,  ///< the one that a call would take, and the baselines
  only_chosen
};

struct NamedSet {
  std::string_view name;
  std::string_view what;
  DeviceKind device = DeviceKind::cpu;
  Kernels kernels = Kernels::all;
  std::vector<SetEntry> entries;
};

/// Lines of operators that have no room in silt-bench are an error when the set is run, not before.
const std::vector<NamedSet>& named_sets();

}  // namespace silt::bench
