// The check that a user runs on a new machine: every kernel against the double-precision reference, on random data.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "silt/choose.hpp"
#include "silt/export.hpp"
#include "silt/status.hpp"
#include "silt/tensor.hpp"

namespace silt {

/// One case on one kernel. `worst` is the largest error as a share of its bound: above 1 (or NaN) the case has failed.
struct CheckResult {
  std::string line;
  std::string_view kernel;
  bool passed = false;
  bool refused = false;  ///< the kernel does not take this problem; `detail` says why
  double worst = 0;
  std::string detail;  ///< the first failure
};

/// Problem lines that `run_check` goes through for an operator.
SILT_API std::vector<std::string> check_lines(std::string_view op);

/// Runs one problem line on one kernel by name, on random data of this seed, outputs poisoned, and compares everything
/// it wrote and everything it must not write.
SILT_API Status check(std::string_view problem_line, std::string_view kernel, Device device, uint64_t seed,
                      CheckResult* result);

/// A line that the operator takes, drawn at random: sizes, options, strides, alignment, padding. The same seed is the
/// same line. Empty where there is no such operator.
SILT_API std::string random_line(std::string_view op, uint64_t seed);
/// `check` with special values among the random ones: zeros, denormals, equal rows, gates at their extremes.
SILT_API Status check_special(std::string_view problem_line, std::string_view kernel, Device device, uint64_t seed,
                              CheckResult* result);

/// Every built kernel that runs on `device`, every line of every operator; calls `report` after each.
SILT_API Status run_check(Device device, uint64_t seed, const std::function<void(const CheckResult&)>& report);

}  // namespace silt
