#include "dispatch/operator.hpp"

#include "core/status.hpp"

namespace silt {

Status find_operator(std::string_view name, const Operator** op) {
  std::string known;
  for (const Operator& entry : all_operators()) {
    if (entry.name == name) {
      *op = &entry;
      return {};
    }
    known += fmt::format("{}{}", known.empty() ? "" : ", ", entry.name);
  }
  return invalid("operator: has \"{}\", needs one of {}", name, known);
}

bool is_kernel_name(std::string_view name) {
  for (const KernelInfo& kernel : kernels()) {
    if (kernel.name == name) return true;
  }
  return false;
}

std::vector<KernelInfo> kernels() {
  std::vector<KernelInfo> all;
  for (const Operator& op : all_operators()) {
    for (const KernelInfo& kernel : op.kernels()) all.push_back(kernel);
  }
  return all;
}

std::vector<KernelInfo> kernels(std::string_view name) {
  for (const Operator& op : all_operators()) {
    if (op.name == name) return op.kernels();
  }
  return {};
}

std::vector<std::string_view> operators() {
  std::vector<std::string_view> names;
  for (const Operator& op : all_operators()) names.push_back(op.name);
  return names;
}

void reset_counters() {
  for (const Operator& op : all_operators()) op.reset_counters();
}

Status explain(std::string_view problem_line, const DeviceFacts& facts, const Policy& policy,
               Explanation* explanation) {
  *explanation = {};
  ProblemLine line;
  SILT_TRY(parse_line(problem_line, &line));
  const Operator* op = nullptr;
  SILT_TRY(find_operator(line.op, &op));
  return op->explain(line, facts, policy, explanation);
}

}  // namespace silt
