// The public check: every kernel of every operator against the reference.
#include "core/status.hpp"
#include "dispatch/operator.hpp"

namespace silt {

std::vector<std::string> check_lines(std::string_view name) {
  const Operator* op = nullptr;
  return find_operator(name, &op).ok() ? op->check_lines() : std::vector<std::string>();
}

Status check(std::string_view problem_line, std::string_view kernel, Device device, uint64_t seed,
             CheckResult* result) {
  *result = {};
  result->line = problem_line;
  result->kernel = kernel;
  ProblemLine line;
  SILT_TRY(parse_line(problem_line, &line));
  const Operator* op = nullptr;
  SILT_TRY(find_operator(line.op, &op));
  const Status status = op->check(line, kernel, device, seed, result);
  if (status.code() == StatusCode::unsupported) {
    result->refused = true;
    result->detail = status.message();
    return {};
  }
  return status;
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
