// The KDA operators against each other: the fused step is the chain of three, prefill and decode continue each other.
// The comments name the row of docs/cases.md.
#include <gtest/gtest.h>

#include "kda/prefill/cases.hpp"
#include "kda/test/chain.hpp"
#include "proof/kernels_here.hpp"

namespace silt {
namespace {

using namespace kda_chain;

/// Kernels of one target that share their steps.
struct Target {
  std::string name;
  std::string conv;
  std::string rule;
  std::string norm;
  std::string decode;
  std::string prefill;
  [[nodiscard]] Kernels chain() const { return {conv.c_str(), rule.c_str(), norm.c_str()}; }
};

Launch launch_of(const std::string& kernel) {
  Launch launch;
  launch.policy = Policy::require(kernel);
  return launch;
}

class Chain : public testing::TestWithParam<Target> {};

const char* const kLines[] = {
    "kda_decode b=5 h=3",
    "kda_decode b=5 h=3 dtype=f32",
    "kda_decode b=5 h=3 norm=0 bias=1 layout=ds padded=1",
    "kda_decode b=4 h=2 gate=softplus bias=1",
    "kda_decode b=4 h=2 gate=softplus dtype=f32 norm=0 layout=ds",
    "kda_decode b=4 h=2 state=bf16 x_stride=1000 gate_stride=1000 output_stride=264",
};

// 32: with fp32 between the steps the chain keeps the bound of the fused step
TEST_P(Chain, OfFloatsIsTheFusedStep) {
  for (const char* line : kLines) {
    KdaDecodeCase c(parsed<KdaDecodeProblem>(line), 1);
    ASSERT_TRUE(c.upload({}).ok());
    run_chain(c, DType::f32, GetParam().chain());
    ASSERT_FALSE(HasFatalFailure()) << line;
    ASSERT_TRUE(c.download().ok());
    const Verdict verdict = c.verify();
    EXPECT_TRUE(verdict.ok) << line << ": " << verdict.detail;
  }
}

// 32: with bf16 between the steps it is within two bf16 ulps of it
TEST_P(Chain, OfHalvesIsWithinTwoUlps) {
  for (const char* line : kLines) {
    const auto problem = parsed<KdaDecodeProblem>(line);
    if (problem.dtype != DType::bf16) continue;
    KdaDecodeCase c(problem, 2);
    ASSERT_TRUE(c.upload({}).ok());
    run_chain(c, DType::bf16, GetParam().chain());
    ASSERT_FALSE(HasFatalFailure()) << line;
    ASSERT_TRUE(c.download().ok());
    const Verdict verdict = verify_halves(c);
    EXPECT_TRUE(verdict.ok) << line << ": " << verdict.detail;
  }
}

/// Copies `count` logical elements.
void copy(const CaseTensor& from, int64_t from_index, CaseTensor& to, int64_t to_index, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to.set(to_index + i, from.get(from_index + i));
}

// 30: prefill of 9 tokens, then 5 decode steps, is prefill of 14: the same bits, for these two kernels share their
// steps
TEST_P(Chain, PrefillThenDecodeIsPrefillOfTheWhole) {
  for (const char* options : {"", " gate=softplus layout=ds bias=1", " dtype=f32 norm=0"}) {
    KdaPrefillCase whole(parsed<KdaPrefillProblem>(fmt::format("kda_prefill seqs=1x14 h=2{}", options)), 3);
    KdaPrefillCase first(parsed<KdaPrefillProblem>(fmt::format("kda_prefill seqs=1x9 h=2{}", options)), 4);
    KdaDecodeCase step(parsed<KdaDecodeProblem>(fmt::format("kda_decode b=1 h=2{}", options)), 5);
    const int64_t p = 2 * kDim;
    const auto take = [&](auto& into, int64_t begin, int64_t count) {
      copy(whole.x, begin * 3 * p, into.x, 0, count * 3 * p);
      copy(whole.raw_gate, begin * p, into.raw_gate, 0, count * p);
      copy(whole.raw_beta, begin * 2, into.raw_beta, 0, count * 2);
      if (whole.problem.norm) copy(whole.output_gate, begin * p, into.output_gate, 0, count * p);
      into.conv_weight = whole.conv_weight;
      into.conv_bias = whole.conv_bias;
      into.A_log = whole.A_log;
      into.dt_bias = whole.dt_bias;
      into.norm_weight = whole.norm_weight;
      into.state_indices = whole.state_indices;
    };
    take(first, 0, 9);
    first.state = whole.state;
    first.conv_state = whole.conv_state;
    ASSERT_TRUE(whole.run({}, launch_of(GetParam().prefill)).ok());
    ASSERT_TRUE(first.run({}, launch_of(GetParam().prefill)).ok());
    for (int64_t i = 0; i < 9 * p; ++i) ASSERT_EQ(first.output.get(i), whole.output.get(i)) << options << " " << i;
    step.state = first.state;
    step.conv_state = first.conv_state;
    for (int64_t t = 9; t < 14; ++t) {
      take(step, t, 1);
      ASSERT_TRUE(step.run({}, launch_of(GetParam().decode)).ok());
      for (int64_t i = 0; i < p; ++i) ASSERT_EQ(step.output.get(i), whole.output.get(t * p + i)) << options << " " << t;
    }
    EXPECT_TRUE(expect_bitwise("state", step.state.bytes(), whole.state.bytes()).ok) << options;
    EXPECT_TRUE(expect_bitwise("history", step.conv_state.bytes(), whole.conv_state.bytes()).ok) << options;
  }
}

/// The portable kernels, the reference, and every SIMD target at hand.
std::vector<Target> every_target() {
  std::vector<Target> all;
  for (const char* name : {"cpu_plain_rows", "cpu_reference"}) all.push_back({name, name, name, name, name, name});
  constexpr std::string_view kHeads = "_heads";
  for (const KernelHere& here : kernels_here("kda_decode")) {
    if (here.device.kind != DeviceKind::cpu || !here.kernel.ends_with(kHeads)) continue;
    const std::string target = here.kernel.substr(0, here.kernel.size() - kHeads.size());
    all.push_back({target, target + "_channels", here.kernel, target + "_rows", here.kernel, target + "_tokens"});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Kda, Chain, testing::ValuesIn(every_target()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace silt
