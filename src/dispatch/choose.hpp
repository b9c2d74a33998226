// The one chooser. Pure: the same problem and facts give the same kernel on any machine, so that the choice for a
// device that is not here can be printed and tested. It knows no operator.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/function_ref.hpp"
#include "core/log.hpp"
#include "core/status.hpp"
#include "device/facts.hpp"
#include "dispatch/kernel.hpp"

namespace silt {

constexpr size_t kNoKernel = static_cast<size_t>(-1);

/// What the walk needs of one kernel, without its types.
struct Candidate {
  std::string_view name;
  DeviceKind device;
  KernelClass speed;
  bool built;
  std::string_view not_built;
};

struct Choice {
  size_t kernel = kNoKernel;
  /// The first better kernel for this device that refused, with its reason; kNoKernel where the choice is the best.
  size_t fell_from = kNoKernel;
  Reason fell_because{};
};

/// One line of the explain table.
struct Visit {
  size_t kernel = 0;
  Reason reason{};
};

namespace detail {
/// The environment's policy where the call has none of its own.
Policy effective_policy(const Policy& policy, std::string_view op, std::span<const Candidate> candidates);
/// `given` is the policy of the call.
Status walk(std::string_view op, std::span<const Candidate> candidates, const DeviceFacts& facts, const Policy& given,
            FunctionRef<Reason(size_t)> accepts, FunctionRef<std::string()> line, Choice* choice,
            std::vector<Visit>* trace);
std::string table(std::span<const Candidate> candidates, const std::vector<Visit>& trace, size_t chosen,
                  const std::string& plan);

template <class Problem, class Args>
std::vector<Candidate> candidates(const KernelList<Problem, Args>& list) {
  std::vector<Candidate> all;
  for (const auto& kernel : list.kernels) {
    all.push_back({kernel.name, kernel.device, kernel.speed, kernel.launch != nullptr, kernel.not_built});
  }
  return all;
}
}  // namespace detail

/// First fit over the list. With `trace` every kernel is visited and recorded; the choice is the same.
template <class Problem, class Args>
Status choose(const KernelList<Problem, Args>& list, const Problem& problem, const DeviceFacts& facts,
              const Policy& policy, Choice* choice, std::vector<Visit>* trace = nullptr) {
  // The list is a constant of the operator, so its untyped form is made once.
  static const std::vector<Candidate> all = detail::candidates(list);
  return detail::walk(
      list.op, all, facts, policy, [&](size_t i) { return list.kernels[i].accepts(problem, facts); },
      [&] { return problem.line(); }, choice, trace);
}

/// check has been done: choose, count, launch. This is the path of every call; it allocates nothing where it succeeds.
template <class Problem, class Args>
Status run(const KernelList<Problem, Args>& list, const Problem& problem, const Args& args, Device device,
           const Launch& launch) {
  if (launch.threads < 0) {
    return invalid("{}: threads: has {}, needs 0 (every core) or more", list.op, launch.threads);
  }
  const DeviceFacts* facts = nullptr;
  SILT_TRY(facts_of(device, &facts));
  Choice choice;
  SILT_TRY(choose(list, problem, *facts, launch.policy, &choice));
  const auto& kernel = list.kernels[choice.kernel];
  KernelCounter& counter = list.counters[choice.kernel];
  counter.runs.fetch_add(1, std::memory_order_relaxed);
  if (choice.fell_from != kNoKernel) {
    counter.fallbacks.fetch_add(1, std::memory_order_relaxed);
    if (!counter.warned.exchange(true, std::memory_order_relaxed)) {
      log_warning(fmt::format("{}: runs {} because {} refused: {}", problem.line(), kernel.name,
                              list.kernels[choice.fell_from].name, to_string(choice.fell_because)));
    }
  }
  return kernel.launch(problem, args, launch);
}

/// The same walk with a recorder.
template <class Problem, class Args>
Status explain(const KernelList<Problem, Args>& list, const Problem& problem, const DeviceFacts& facts,
               const Policy& policy, Explanation* explanation) {
  Choice choice;
  std::vector<Visit> trace;
  const Status status = choose(list, problem, facts, policy, &choice, &trace);
  std::string plan;
  if (choice.kernel != kNoKernel) {
    const auto& kernel = list.kernels[choice.kernel];
    if (kernel.plan != nullptr) plan = kernel.plan(problem, facts);
    explanation->kernel = kernel.name;
  }
  explanation->plan = plan;
  explanation->table = fmt::format("{} on {} ({})\n", problem.line(), facts.name, facts.arch) +
                       detail::table(detail::candidates(list), trace, choice.kernel, plan);
  return status;
}

}  // namespace silt
