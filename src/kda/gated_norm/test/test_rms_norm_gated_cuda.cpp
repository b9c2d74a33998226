// rms_norm_gated on an NVIDIA GPU: graphs, a busy GPU, large sizes. The comments name the row of docs/cases.md. Every
// case of the operator runs on these kernels in test_rms_norm_gated.cpp as well.
#include "kda/gated_norm/cases.hpp"
#include "kda/shared/test/cuda_test.hpp"

namespace silt {
namespace {

using namespace cuda_test;

using C = RmsNormGatedCase;
const Members<C> kRead = {&C::x, &C::gate, &C::weight};
const Members<C> kWritten = {&C::output};

// The short list for compute-sanitizer: every form of the portable kernel, with a block that is not full.
TEST(CudaReduced, RmsNormGated) {
  if (!has_gpu()) GTEST_SKIP() << "no NVIDIA device";
  for (const char* sizes :
       {"t=3 h=3", "t=3 h=3 act=silu x=f32 output=f32", "t=3 h=3 x=f32", "t=3 h=3 output=f32",
        "t=3 h=3 x_stride=391 gate_stride=401 output_stride=385 align=2", "t=3 h=3 x=f32 output=f32 align=4",
        "t=3 h=3 x=f32 align=4", "t=3 h=3 output=f32 align=4"}) {
    C c = case_of<C>(std::string("rms_norm_gated ") + sizes, 30);
    ASSERT_TRUE(c.run(kGpu, {.policy = Policy::require("cuda_sm80_rows")}).ok()) << sizes;
    const Verdict verdict = c.verify();
    EXPECT_TRUE(verdict.ok) << sizes << ": " << verdict.detail;
  }
}

class NormOnCuda : public testing::TestWithParam<KernelHere> {
 protected:
  [[nodiscard]] Launch launch() const {
    Launch launch;
    launch.policy = Policy::require(GetParam().kernel);
    return launch;
  }
  [[nodiscard]] Launch launch(const Stream& stream) const {
    Launch on = launch();
    on.stream = stream.get();
    return on;
  }
};

// 7: a captured graph follows what it finds
TEST_P(NormOnCuda, AGraphFollowsItsMemory) {
  C captured = case_of<C>("rms_norm_gated t=13 h=12", 50);
  ASSERT_TRUE(captured.upload(kGpu).ok());
  const Stream stream;
  const Graph graph(stream, [&] { ASSERT_TRUE(rms_norm_gated(captured.args(), launch(stream)).ok()); });
  for (const uint64_t seed : {51U, 52U}) {
    C next = case_of<C>("rms_norm_gated t=13 h=12", seed);
    expect_replay_is_right(graph, stream, captured, next, kRead, kWritten);
  }
}

// 26: a hundred runs while another stream keeps the memory busy
TEST_P(NormOnCuda, AHundredRunsOnABusyGpuAreTheSame) {
  for (const char* sizes : {"t=1 h=12", "t=256 h=12", "t=25 h=96 x=f32 act=silu"}) {
    const C fresh = case_of<C>(std::string("rms_norm_gated ") + sizes, 60);
    expect_a_hundred_equal_runs(
        fresh, kWritten, [&](const C& c, const Stream& stream) { return rms_norm_gated(c.args(), launch(stream)); });
  }
}

// 1: rows that are more than 2^31 elements apart
TEST_P(NormOnCuda, RowsBeyondTwoToTheThirtyOne) {
  constexpr int64_t kStride = (int64_t{1} << 31) + 256;
  for (const int which : {0, 1, 2}) {
    C c = case_of<C>("rms_norm_gated t=2 h=2", 80);
    ASSERT_TRUE(c.upload(kGpu).ok());
    const FarRows far(which == 0 ? c.x : which == 1 ? c.gate : c.output, kStride, 256);
    RmsNormGatedArgs args = c.args();
    if (which == 0) args.x = far.view();
    if (which == 1) args.gate = far.view();
    if (which == 2) args.output = far.view();
    const Status status = rms_norm_gated(args, launch());
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(synchronize(kGpu).ok());
    if (which == 2) far.bring_back();
    ASSERT_TRUE(c.download().ok());
    const Verdict verdict = c.verify();
    EXPECT_TRUE(verdict.ok) << which << ": " << verdict.detail;
  }
}

INSTANTIATE_TEST_SUITE_P(RmsNormGated, NormOnCuda, testing::ValuesIn(cuda_kernels_here("rms_norm_gated")), kernel_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(NormOnCuda);

}  // namespace
}  // namespace silt
