// A room's operator as those see it who walk all operators: from its kernel list, the lines of its standing check and
// the class of its cases.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "core/status.hpp"
#include "dispatch/operator.hpp"
#include "proof/compare.hpp"
#include "proof/draw.hpp"
#include "proof/record_launch.hpp"

namespace silt {

/// One line of the standing check on a kernel, against the double-precision reference.
template <class Case>
Status check_case(const ProblemLine& line, std::string_view kernel, Device device, const CaseData& data,
                  CheckResult* result) {
  decltype(Case::problem) problem;
  SILT_TRY(decltype(problem)::parse(line, &problem));
  Case c(problem, data.seed);
  if (data.special) {
    // Other bytes than those of the line, which may be drawn from the same seed.
    const std::vector<uint8_t> bytes = bytes_of(~data.seed);
    Draws draws(bytes);
    plant_specials(c.tensors(), draws);
  }
  SILT_TRY(c.run(device, {.policy = Policy::require(kernel)}));
  const Verdict verdict = c.verify();
  result->passed = verdict.ok;
  result->worst = verdict.worst;
  result->detail = verdict.detail;
  return {};
}

template <class Case>
std::string draw_line_of(std::span<const uint8_t> bytes) {
  Draws draws(bytes);
  return draw_line<decltype(Case::problem)>(draws);
}

template <class Case, auto kList, std::vector<std::string> (*kLines)()>
Operator operator_of() {
  Operator made{kList().op,
                [] { return kernel_infos(kList()); },
                [] { reset(kList()); },
                [](const ProblemLine& line, const DeviceFacts& facts, const Policy& policy, Explanation* explanation) {
                  return explain_line(kList(), line, facts, policy, explanation);
                },
                kLines,
                check_case<Case>,
                draw_line_of<Case>,
                [](uint64_t seed) { return draw_line_of<Case>(bytes_of(seed)); }};
  const auto& listed = kList().kernels;
  if (std::any_of(listed.begin(), listed.end(), [](const auto& kernel) { return kernel.device == DeviceKind::hip; })) {
    made.record = record_case<Case, kList>;
    made.judge = judge_case<Case>;
  }
  return made;
}

}  // namespace silt
