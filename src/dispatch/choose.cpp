#include "dispatch/choose.hpp"

#include "core/environment.hpp"
#include "dispatch/operator.hpp"

namespace silt {
namespace {

std::string_view kind_name(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cpu:
      return "cpu";
    case DeviceKind::cuda:
      return "cuda";
    case DeviceKind::hip:
      return "hip";
  }
  return "unknown";
}

/// "needs nvcc" as the third part of a reason, which says "needs" itself.
std::string_view needs_of(std::string_view not_built) {
  constexpr std::string_view kNeeds = "needs ";
  return not_built.starts_with(kNeeds) ? not_built.substr(kNeeds.size()) : not_built;
}

size_t find(std::span<const Candidate> candidates, std::string_view name) {
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].name == name) return i;
  }
  return kNoKernel;
}

std::string names(std::span<const Candidate> candidates) {
  std::string text;
  for (const Candidate& candidate : candidates) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", candidate.name);
  }
  return text;
}

/// SILT_KERNEL for one operator: "name" (where the operator lists it, or no operator does) or "operator=name,...".
std::string_view environment_kernel(std::string_view op, std::span<const Candidate> candidates) {
  std::string_view rest = environment().kernel;
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view item = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      if (find(candidates, item) != kNoKernel || !is_kernel_name(item)) return item;
    } else if (item.substr(0, equals) == op) {
      return item.substr(equals + 1);
    }
  }
  return {};
}

}  // namespace

std::string to_string(const Reason& reason) {
  if (reason.accepted()) return "accepts";
  if (reason.has_text.empty())
    return fmt::format("{}: has {}, needs {}", reason.field, reason.has_number, reason.needs);
  return fmt::format("{}: has {}, needs {}", reason.field, reason.has_text, reason.needs);
}

Policy detail::effective_policy(const Policy& policy, std::string_view op, std::span<const Candidate> candidates) {
  if (policy.kind != Policy::Kind::automatic || environment().kernel.empty()) return policy;
  const std::string_view name = environment_kernel(op, candidates);
  return name.empty() ? policy : Policy::require(name);
}

Status detail::walk(std::string_view op, std::span<const Candidate> candidates, const DeviceFacts& facts,
                    const Policy& given, FunctionRef<Reason(size_t)> accepts, FunctionRef<std::string()> line,
                    Choice* choice, std::vector<Visit>* trace) {
  const Policy policy = effective_policy(given, op, candidates);
  const auto ask = [&](size_t i) {
    const Candidate& candidate = candidates[i];
    if (candidate.device != facts.kind) return refuse("device", kind_name(facts.kind), kind_name(candidate.device));
    if (!candidate.built && !facts.canned) return refuse("build", "no such kernel", needs_of(candidate.not_built));
    return accepts(i);
  };
  *choice = {};
  size_t wanted = kNoKernel;
  if (policy.kind != Policy::Kind::automatic) {
    wanted = find(candidates, policy.kernel);
    if (wanted == kNoKernel) {
      return invalid("{}: kernel: has \"{}\", needs one of {}", op, policy.kernel, names(candidates));
    }
    const Reason reason = ask(wanted);
    if (reason.accepted()) {
      choice->kernel = wanted;
    } else if (policy.kind == Policy::Kind::require) {
      if (trace != nullptr) trace->push_back({wanted, reason});
      return failed(StatusCode::unsupported, "{}: kernel {} refuses: {} ({})", op, policy.kernel, to_string(reason),
                    line());
    } else {
      choice->fell_from = wanted;
      choice->fell_because = reason;
    }
  }
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (choice->kernel != kNoKernel && trace == nullptr) break;
    const Reason reason = ask(i);
    if (trace != nullptr) trace->push_back({i, reason});
    if (choice->kernel != kNoKernel) continue;
    if (reason.accepted()) {
      choice->kernel = i;
    } else if (choice->fell_from == kNoKernel && reason.field != "device" && reason.field != "arch") {
      choice->fell_from = i;
      choice->fell_because = reason;
    }
  }
  if (choice->kernel == kNoKernel) {
    return failed(StatusCode::unsupported, "{}: no kernel for {} on {}", op, line(), facts.name);
  }
  // Only a slower class is a fallback; a sibling of the same class is an ordinary choice.
  const bool preferred = policy.kind == Policy::Kind::prefer && choice->fell_from == wanted;
  if (choice->fell_from != kNoKernel && !preferred &&
      candidates[choice->fell_from].speed >= candidates[choice->kernel].speed) {
    choice->fell_from = kNoKernel;
  }
  return {};
}

std::string detail::table(std::span<const Candidate> candidates, const std::vector<Visit>& trace, size_t chosen,
                          const std::string& plan) {
  std::string text;
  for (const Visit& visit : trace) {
    const Candidate& candidate = candidates[visit.kernel];
    std::string verdict = visit.reason.accepted() ? "accepts" : "refuses: " + to_string(visit.reason);
    if (visit.kernel == chosen) verdict = plan.empty() ? "chosen" : "chosen: " + plan;
    if (!candidate.built && visit.reason.accepted())
      verdict += fmt::format(" (not built here: {})", candidate.not_built);
    text += fmt::format("  {:<20} {}\n", candidate.name, verdict);
  }
  return text;
}

}  // namespace silt
