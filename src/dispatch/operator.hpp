// An operator without its types: what the command line, tests over all operators and the counters walk.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "silt/check.hpp"
#include "silt/dump_launch.hpp"

#include "core/problem_line.hpp"
#include "dispatch/choose.hpp"

namespace silt {

/// What a case's tensors hold: random numbers, and with `special` zeros, denormals, extremes of gates among them.
struct CaseData {
  uint64_t seed = 1;
  bool special = false;
};

struct Operator {
  std::string_view name;
  std::vector<KernelInfo> (*kernels)();
  void (*reset_counters)();
  Status (*explain)(const ProblemLine& line, const DeviceFacts& facts, const Policy& policy, Explanation* explanation);
  /// Problem lines of the standing check, and one of them run on a kernel against the double-precision reference.
  std::vector<std::string> (*check_lines)();
  Status (*check)(const ProblemLine& line, std::string_view kernel, Device device, const CaseData& data,
                  CheckResult* result);
  /// A line that the operator takes, from any bytes, and from the bytes that a seed stands for (proof/draw.hpp).
  std::string (*draw_line)(std::span<const uint8_t> bytes);
  std::string (*random_line)(uint64_t seed);
  /// dump_launch.hpp; null where no kernel of the operator is an AMD kernel of one launch.
  Status (*record)(const ProblemLine& line, const DeviceFacts& facts, const Policy& policy, uint64_t seed,
                   LaunchDump* dump) = nullptr;
  Status (*judge)(const ProblemLine& line, uint64_t seed,
                  const std::vector<std::pair<std::string, std::vector<std::byte>>>& written,
                  CheckResult* result) = nullptr;
};

/// Every operator, in the order of the documentation. Defined in operators.cpp, the one file that lists the rooms.
std::span<const Operator> all_operators();
/// invalid_argument lists the names.
Status find_operator(std::string_view name, const Operator** op);
bool is_kernel_name(std::string_view name);

/// The counters of a list, as the public type.
template <class Problem, class Args>
std::vector<KernelInfo> kernel_infos(const KernelList<Problem, Args>& list) {
  std::vector<KernelInfo> infos;
  for (size_t i = 0; i < list.kernels.size(); ++i) {
    const auto& kernel = list.kernels[i];
    const bool built = kernel.launch != nullptr;
    infos.push_back({list.op, kernel.name, kernel.device, built, built ? std::string_view() : kernel.not_built,
                     list.counters[i].runs.load(), list.counters[i].fallbacks.load()});
  }
  return infos;
}

template <class Problem, class Args>
void reset(const KernelList<Problem, Args>& list) {
  for (KernelCounter& counter : list.counters) {
    counter.runs = 0;
    counter.fallbacks = 0;
    counter.warned = false;
  }
}

template <class Problem, class Args>
Status explain_line(const KernelList<Problem, Args>& list, const ProblemLine& line, const DeviceFacts& facts,
                    const Policy& policy, Explanation* explanation) {
  Problem problem;
  SILT_TRY(Problem::parse(line, &problem));
  return explain(list, problem, facts, policy, explanation);
}

}  // namespace silt
