// A program that links this has one kernel that is wrong in every case: `silt check` must say so.
#include "silt/check.hpp"

namespace silt {

Status check(std::string_view problem_line, std::string_view kernel, Device, uint64_t, CheckResult* result) {
  *result = {};
  result->line = problem_line;
  result->kernel = kernel;
  result->passed = kernel != "cpu_reference";
  result->worst = result->passed ? 0.5 : 2.0;
  result->detail = result->passed ? "" : "planted";
  return {};
}

}  // namespace silt
