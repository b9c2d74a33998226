// kda_decode: every kernel at hand, every case. The comments name the row of docs/cases.md.
#include <gtest/gtest.h>

#include "kda/decode/cases.hpp"
#include "proof/kernels_here.hpp"

namespace silt {
namespace {

KdaDecodeProblem problem_of(const std::string& text) {
  ProblemLine line;
  KdaDecodeProblem problem;
  Status status = parse_line(text, &line);
  if (status.ok()) status = KdaDecodeProblem::parse(line, &problem);
  EXPECT_TRUE(status.ok()) << status.message();
  return problem;
}

struct Param {
  KernelHere here;
  std::string line;
};

std::vector<Param> every_kernel_every_line() {
  std::vector<Param> all;
  for (const KernelHere& here : kernels_here("kda_decode")) {
    for (const std::string& line : kda_decode_check_lines()) all.push_back({here, line});
  }
  return all;
}

class Numerics : public testing::TestWithParam<Param> {};

TEST_P(Numerics, MatchesTheReference) {
  const auto& [here, line] = GetParam();
  KdaDecodeCase c(problem_of(line), 1);
  const uint64_t before = runs_of("kda_decode", here.kernel);
  const Status status = c.run(here.device, {.policy = Policy::require(here.kernel)});
  if (status.code() == StatusCode::unsupported) {
    // Not for this kernel: the reason names a field, and another kernel of the device takes the call.
    EXPECT_NE(status.message().find("refuses: "), std::string::npos) << status.message();
    ASSERT_TRUE(c.run(here.device, {}).ok());
    EXPECT_TRUE(c.verify().ok) << c.verify().detail;
    return;
  }
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(runs_of("kda_decode", here.kernel), before + 1) << "another kernel ran";
  const Verdict verdict = c.verify();
  RecordProperty("worst", std::to_string(verdict.worst));
  EXPECT_TRUE(verdict.ok) << verdict.detail;
}

/// What check sees of a case's tensors is what its line says.
TEST_P(Numerics, TheCheckedProblemIsTheLine) {
  KdaDecodeProblem problem = problem_of(GetParam().line);
  EXPECT_EQ(problem_of(problem.line()).line(), problem.line());
  KdaDecodeCase c(problem, 1);
  ASSERT_TRUE(c.upload(GetParam().here.device).ok());
  KdaDecodeProblem checked;
  const Status status = check(c.args(), &checked);
  ASSERT_TRUE(status.ok()) << status.message();
  problem.padded = 0;
  EXPECT_EQ(checked.line(), problem.line());
}

INSTANTIATE_TEST_SUITE_P(KdaDecode, Numerics, testing::ValuesIn(every_kernel_every_line()),
                         [](const auto& param) { return test_name(param.param.here.kernel, param.param.line); });

}  // namespace
}  // namespace silt
