// From a command line to cells: named sets and problem lines, narrowed by operator, kernel, mode and pattern.
#pragma once

#include <string>
#include <vector>

#include "bench/measure.hpp"

namespace silt::bench {

struct Selection {
  std::vector<std::string> sets;
  std::vector<std::string> problems;
  std::string device;                ///< "cpu", "cuda", "cuda:1", "hip:0"; empty: what the sets are for, else cpu
  std::string filter;                ///< a regular expression found in "<problem>/<kernel>/<mode>"
  std::vector<std::string> ops;      ///< keep these; empty: all
  std::vector<std::string> kernels;  ///< names, "all", or "auto" (what a call would take); empty: the set's own rule
  std::vector<std::string> modes;    ///< keep these; empty: the set's own, for problems cpu or graph
  bool list_only = false;            ///< unbuilt kernels and absent devices are no errors
};

/// A kernel that does not take a problem, and why: told, not measured.
struct Refusal {
  std::string problem;
  std::string kernel;
  std::string reason;
};

struct Selected {
  std::vector<Cell> cells;
  std::vector<Refusal> refusals;
};

/// invalid_argument where a name is unknown or nothing is left: a filter that selects nothing is an error.
Status select(const Selection& selection, Selected* selected);

}  // namespace silt::bench
