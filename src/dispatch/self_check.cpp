// The public check: every kernel of every operator against the reference.
#include "core/status.hpp"
#include "dispatch/operator.hpp"

namespace silt {

std::vector<std::string> check_lines(std::string_view name) {
  const Operator* op = nullptr;
  return find_operator(name, &op).ok() ? op->check_lines() : std::vector<std::string>();
}

namespace {

Status check_on(std::string_view problem_line, std::string_view kernel, Device device, const CaseData& data,
                CheckResult* result) {
  *result = {};
  result->line = problem_line;
  result->kernel = kernel;
  ProblemLine line;
  SILT_TRY(parse_line(problem_line, &line));
  const Operator* op = nullptr;
  SILT_TRY(find_operator(line.op, &op));
  const Status status = op->check(line, kernel, device, data, result);
  if (status.code() == StatusCode::unsupported) {
    result->refused = true;
    result->detail = status.message();
    return {};
  }
  return status;
}

}  // namespace

Status check(std::string_view problem_line, std::string_view kernel, Device device, uint64_t seed,
             CheckResult* result) {
  return check_on(problem_line, kernel, device, {seed, false}, result);
}

Status check_special(std::string_view problem_line, std::string_view kernel, Device device, uint64_t seed,
                     CheckResult* result) {
  return check_on(problem_line, kernel, device, {seed, true}, result);
}

std::string random_line(std::string_view name, uint64_t seed) {
  const Operator* op = nullptr;
  return find_operator(name, &op).ok() ? op->random_line(seed) : std::string();
}

Status run_check(Device device, uint64_t seed, const std::function<void(const CheckResult&)>& report) {
  DeviceFacts facts;
  SILT_TRY(device_facts(device, &facts));
  for (const Operator& op : all_operators()) {
    const std::vector<std::string> lines = op.check_lines();
    for (const KernelInfo& kernel : op.kernels()) {
      if (!kernel.built || kernel.device != device.kind) continue;
      for (const std::string& line : lines) {
        CheckResult result;
        SILT_TRY(check(line, kernel.name, device, seed, &result));
        report(result);
      }
    }
  }
  return {};
}

}  // namespace silt
