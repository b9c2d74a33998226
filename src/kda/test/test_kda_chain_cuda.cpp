// The decode step as three operators on an NVIDIA GPU: against the fused kernels there, and against the CPU. The
// comments name the row of docs/cases.md.
#include "kda/shared/test/cuda_test.hpp"
#include "kda/test/chain.hpp"

namespace silt {
namespace {

using namespace cuda_test;
using namespace kda_chain;

constexpr Kernels kCuda = {"cuda_sm80_channels", "cuda_sm80_rows", "cuda_sm80_rows"};
constexpr Kernels kCpu = {"cpu_plain_rows", "cpu_plain_rows", "cpu_plain_rows"};
const Members<KdaDecodeCase> kWritten = {&KdaDecodeCase::state, &KdaDecodeCase::conv_state, &KdaDecodeCase::output};

/// The short list for compute-sanitizer: both types between the steps.
TEST(CudaReduced, KdaChain) {
  if (!has_gpu()) GTEST_SKIP() << "no NVIDIA device";
  for (const DType between : {DType::f32, DType::bf16}) {
    auto c = case_of<KdaDecodeCase>("kda_decode b=2 h=2 bias=1", 30);
    ASSERT_TRUE(c.upload(kGpu).ok());
    run_chain(c, between, kCuda);
    ASSERT_FALSE(HasFatalFailure());
    ASSERT_TRUE(c.download().ok());
    const Verdict verdict = verify_halves(c);
    EXPECT_TRUE(verdict.ok) << verdict.detail;
  }
}

/// The fused kernels of this GPU.
class ChainOnCuda : public testing::TestWithParam<KernelHere> {};

const char* const kLines[] = {
    "kda_decode b=5 h=3",
    "kda_decode b=5 h=3 norm=0 bias=1 layout=ds padded=1",
    "kda_decode b=4 h=2 gate=softplus bias=1",
    "kda_decode b=1 h=12",
    "kda_decode b=33 h=12 state=bf16",
    "kda_decode b=2 h=96 layout=ds state=bf16 bias=1 lower_bound=-0.5",
    "kda_decode b=4 h=2 state=bf16 x_stride=1000 gate_stride=1000 output_stride=264 align=8",
};

// 32: with fp32 between the steps the chain keeps the bound of the fused step, and since it adds in the same order it
// has the bits of every fused kernel
TEST_P(ChainOnCuda, OfFloatsIsTheFusedStep) {
  for (const char* line : kLines) {
    const auto fresh = case_of<KdaDecodeCase>(line, 1);
    KdaDecodeCase chain = fresh;
    ASSERT_TRUE(chain.upload(kGpu).ok());
    run_chain(chain, DType::f32, kCuda);
    ASSERT_FALSE(HasFatalFailure()) << line;
    ASSERT_TRUE(chain.download().ok());
    const Verdict verdict = chain.verify();
    EXPECT_TRUE(verdict.ok) << line << ": " << verdict.detail;
    KdaDecodeCase fused = fresh;
    const Status status = fused.run(kGpu, {.policy = Policy::require(GetParam().kernel)});
    ASSERT_TRUE(status.ok()) << line << ": " << status.message();
    const Verdict same = expect_bitwise("written", bytes_of(chain, kWritten), bytes_of(fused, kWritten));
    EXPECT_TRUE(same.ok) << line << ": " << same.detail;
  }
}

// 32: with bf16 between the steps it is within two bf16 ulps of the exact step, and so of every fused kernel
TEST_P(ChainOnCuda, OfHalvesIsWithinTwoUlps) {
  for (const char* line : kLines) {
    auto c = case_of<KdaDecodeCase>(line, 2);
    KdaDecodeCase fused = c;
    ASSERT_TRUE(c.upload(kGpu).ok());
    run_chain(c, DType::bf16, kCuda);
    ASSERT_FALSE(HasFatalFailure()) << line;
    ASSERT_TRUE(c.download().ok());
    const Verdict verdict = verify_halves(c);
    EXPECT_TRUE(verdict.ok) << line << ": " << verdict.detail;
    ASSERT_TRUE(fused.run(kGpu, {.policy = Policy::require(GetParam().kernel)}).ok());
    const Verdict same = expect_bitwise("history", c.conv_state.bytes(), fused.conv_state.bytes());
    EXPECT_TRUE(same.ok) << line << ": " << same.detail;
    // Two ulps, and the fused step's own rounding.
    const Verdict near = expect_rows_within(
        "output", c.problem.b * c.problem.h, kDim, [&](int64_t i) { return c.output.get(i); },
        [&](int64_t i) { return fused.output.get(i); }, 5 * kHalfUlp);
    EXPECT_TRUE(near.ok) << line << ": " << near.detail;
  }
}

// 32: the chain on the GPU against the chain on the CPU: histories bit for bit, rows of the state to twice what the
// contract grants each of them, outputs to two ulps
TEST_P(ChainOnCuda, OfFloatsIsThatOfTheCpu) {
  for (const char* line : kLines) {
    auto gpu = case_of<KdaDecodeCase>(line, 3);
    KdaDecodeCase cpu = gpu;
    ASSERT_TRUE(gpu.upload(kGpu).ok());
    ASSERT_TRUE(cpu.upload({}).ok());
    run_chain(gpu, DType::f32, kCuda);
    run_chain(cpu, DType::f32, kCpu);
    ASSERT_FALSE(HasFatalFailure()) << line;
    ASSERT_TRUE(gpu.download().ok());
    ASSERT_TRUE(cpu.download().ok());
    const Verdict same = expect_bitwise("history", gpu.conv_state.bytes(), cpu.conv_state.bytes());
    EXPECT_TRUE(same.ok) << line << ": " << same.detail;
    const KdaDecodeProblem& p = gpu.problem;
    const double state_bound = p.state == DType::bf16 ? 2 * kHalfUlp : 2e-5;
    for (int64_t row = 0; row < p.b; ++row) {
      const int64_t slot = gpu.state_indices.get_int(row);
      if (kda::is_padding(slot, p.null_slot, p.slots)) continue;
      const int64_t state = slot * p.p() * kDim;
      Verdict near = expect_rows_within(
          "state", p.p(), kDim, [&](int64_t i) { return gpu.state.get(state + i); },
          [&](int64_t i) { return cpu.state.get(state + i); }, state_bound);
      near.merge(expect_rows_within(
          "output", p.h, kDim, [&](int64_t i) { return gpu.output.get(row * p.p() + i); },
          [&](int64_t i) { return cpu.output.get(row * p.p() + i); }, 4 * kHalfUlp));
      EXPECT_TRUE(near.ok) << line << " row " << row << ": " << near.detail;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kda, ChainOnCuda, testing::ValuesIn(cuda_kernels_here("kda_decode")), kernel_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ChainOnCuda);

}  // namespace
}  // namespace silt
