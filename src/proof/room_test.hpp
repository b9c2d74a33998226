// What the tests of every room start from: a problem from its line, every kernel at hand with every line of the
// standing check, and the fixture of one kernel.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/problem_line.hpp"
#include "proof/compare.hpp"
#include "proof/kernels_here.hpp"

namespace silt {

template <class Problem>
Problem parsed(const std::string& text) {
  ProblemLine line;
  Problem problem;
  Status status = parse_line(text, &line);
  if (status.ok()) status = Problem::parse(line, &problem);
  EXPECT_TRUE(status.ok()) << status.message();
  return problem;
}

struct KernelLine {
  KernelHere here;
  std::string line;
};

inline std::vector<KernelLine> every_kernel_every_line(std::string_view op) {
  std::vector<KernelLine> all;
  for (const KernelHere& here : kernels_here(op)) {
    for (const std::string& line : check_lines(op)) all.push_back({here, line});
  }
  return all;
}

/// The named kernel ran and is right; or it refuses, and the reason names a field.
template <class Case>
void expect_right_or_refused(std::string_view op, const KernelLine& which) {
  const auto& [here, line] = which;
  Case c(parsed<decltype(Case::problem)>(line), 1);
  const uint64_t before = runs_of(op, here.kernel);
  const Status status = c.run(here.device, {.policy = Policy::require(here.kernel)});
  if (status.code() == StatusCode::unsupported) {
    EXPECT_NE(status.message().find("refuses: "), std::string::npos) << status.message();
    return;
  }
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(runs_of(op, here.kernel), before + 1) << "another kernel ran";
  const Verdict verdict = c.verify();
  EXPECT_TRUE(verdict.ok) << verdict.detail;
}

/// What explain's table says on a known device: for each line, a refusal with this reason. Whether another kernel takes
/// the call does not matter.
inline void expect_refusals(std::string_view device,
                            std::initializer_list<std::pair<std::string_view, std::string_view>> refusals) {
  DeviceFacts facts;
  ASSERT_TRUE(canned_facts(device, &facts).ok()) << device;
  for (const auto& [line, reason] : refusals) {
    Explanation explanation;
    static_cast<void>(explain(line, facts, {}, &explanation));
    EXPECT_NE(explanation.table.find(reason), std::string::npos) << line << "\n" << explanation.table;
  }
}

/// On every known AMD device its own kernel, "hip_<architecture>_<idea>", takes every line of the operator's standing
/// check but those of the exact mode, which is for the CPU. `also(line, explanation)` looks at what else it says.
template <class Also>
void expect_native_on_amd(std::string_view op, std::string_view idea, const Also& also) {
  int refused = 0;
  for (const auto& [device, isa] : {std::pair{"mi300x", "gfx942"}, {"mi325x", "gfx942"}, {"mi355x", "gfx950"}}) {
    DeviceFacts facts;
    ASSERT_TRUE(canned_facts(device, &facts).ok());
    const std::string kernel = fmt::format("hip_{}_{}", isa, idea);
    for (const std::string& line : check_lines(op)) {
      Explanation explanation;
      const Status status = explain(line, facts, {}, &explanation);
      if (explanation.kernel == kernel) {
        also(line, explanation);
        continue;
      }
      ++refused;
      EXPECT_EQ(status.code(), StatusCode::unsupported) << line;
      EXPECT_TRUE(line.find(" dtype=f32") != std::string::npos || line.find(" gate=f32") != std::string::npos) << line;
      EXPECT_NE(explanation.table.find("has f32, needs bf16"), std::string::npos) << explanation.table;
    }
  }
  EXPECT_GT(refused, 0) << "the check has lines of the exact mode";
}

template <class Case>
class EveryKernelOf : public testing::TestWithParam<KernelHere> {
 protected:
  [[nodiscard]] const KernelHere& here() const { return GetParam(); }
  [[nodiscard]] Launch launch() const {
    Launch launch;
    launch.policy = Policy::require(here().kernel);
    return launch;
  }
  void expect_right(Case& c) const {
    const Status status = c.run(here().device, launch());
    ASSERT_TRUE(status.ok()) << status.message();
    const Verdict verdict = c.verify();
    EXPECT_TRUE(verdict.ok) << c.problem.line() << ": " << verdict.detail;
  }
};

}  // namespace silt
