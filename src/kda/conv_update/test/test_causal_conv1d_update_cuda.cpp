// causal_conv1d_update on an NVIDIA GPU: graphs, a busy GPU, large sizes. The comments name the row of docs/cases.md.
// Every case of the operator runs on these kernels in test_causal_conv1d_update.cpp as well.
#include "kda/conv_update/cases.hpp"
#include "kda/shared/test/cuda_test.hpp"

namespace silt {
namespace {

using namespace cuda_test;

using C = CausalConv1dUpdateCase;
const Members<C> kRead = {&C::x, &C::weight, &C::bias, &C::state_indices};
const Members<C> kWritten = {&C::conv_state, &C::output};

// The short list for compute-sanitizer: both forms of the portable kernel, blocks that are not full, both layouts.
TEST(CudaReduced, CausalConv1dUpdate) {
  if (!has_gpu()) GTEST_SKIP() << "no NVIDIA device";
  for (const char* sizes : {"b=3 c=384 padded=1", "b=3 n=4 c=405 bias=1 layout=ds align=2", "b=2 n=2 c=384 output=f32",
                            "b=3 n=3 c=51 padded=1 null=-1 layout=ds align=2"}) {
    C c = case_of<C>(std::string("causal_conv1d_update ") + sizes, 30);
    ASSERT_TRUE(c.run(kGpu, {.policy = Policy::require("cuda_sm80_channels")}).ok()) << sizes;
    const Verdict verdict = c.verify();
    EXPECT_TRUE(verdict.ok) << sizes << ": " << verdict.detail;
  }
}

class ConvOnCuda : public testing::TestWithParam<KernelHere> {
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

// 7: a captured graph follows what it finds: other slots, other inputs, more and fewer padding rows
TEST_P(ConvOnCuda, AGraphFollowsItsMemory) {
  for (const char* sizes : {"b=6 c=4608 slots=20", "b=6 n=3 c=405 slots=20 layout=ds bias=1 align=2"}) {
    const std::string line = std::string("causal_conv1d_update ") + sizes;
    C captured = case_of<C>(line + " padded=1", 50);
    ASSERT_TRUE(captured.upload(kGpu).ok());
    const Stream stream;
    const Graph graph(stream, [&] { ASSERT_TRUE(causal_conv1d_update(captured.args(), launch(stream)).ok()); });
    for (const int padded : {0, 1, 3}) {
      C next = case_of<C>(fmt::format("{} padded={}", line, padded), 51 + static_cast<uint64_t>(padded));
      expect_replay_is_right(graph, stream, captured, next, kRead, kWritten);
    }
  }
}

// 25, 26: a hundred runs while another stream keeps the memory busy; a history with two owners would differ
TEST_P(ConvOnCuda, AHundredRunsOnABusyGpuAreTheSame) {
  for (const char* sizes : {"b=1 c=4608", "b=192 c=384", "b=25 n=4 c=1152 layout=ds bias=1"}) {
    const C fresh = case_of<C>(std::string("causal_conv1d_update ") + sizes, 60);
    expect_a_hundred_equal_runs(fresh, kWritten, [&](const C& c, const Stream& stream) {
      return causal_conv1d_update(c.args(), launch(stream));
    });
  }
}

// 27: a sequence among 67, and alone at another position and slot
TEST_P(ConvOnCuda, ASequenceDependsOnItselfOnly) {
  constexpr int64_t kChannels = 405;
  constexpr int64_t kTokens = 2;
  C many = case_of<C>("causal_conv1d_update b=67 n=2 c=405 bias=1", 70);
  C alone = case_of<C>("causal_conv1d_update b=1 n=2 c=405 bias=1", 71);
  const C fresh = many;
  ASSERT_TRUE(many.run(kGpu, launch()).ok());
  alone.weight = fresh.weight;
  alone.bias = fresh.bias;
  for (const int64_t row : {0, 31, 66}) {
    const int64_t first = row * kTokens * kChannels;
    for (int64_t i = 0; i < kTokens * kChannels; ++i) alone.x.set(i, fresh.x.get(first + i));
    const int64_t from = fresh.state_indices.get_int(row) * 3 * kChannels;
    const int64_t to = alone.state_indices.get_int(0) * 3 * kChannels;
    for (int64_t i = 0; i < 3 * kChannels; ++i) alone.conv_state.set(to + i, fresh.conv_state.get(from + i));
    ASSERT_TRUE(alone.run(kGpu, launch()).ok());
    for (int64_t i = 0; i < kTokens * kChannels; ++i) {
      ASSERT_EQ(alone.output.get(i), many.output.get(first + i)) << row << " " << i;
    }
    for (int64_t i = 0; i < 3 * kChannels; ++i) {
      ASSERT_EQ(alone.conv_state.get(to + i), many.conv_state.get(from + i)) << row << " " << i;
    }
  }
}

// 1: slots beyond 2^31 elements, in both layouts
TEST_P(ConvOnCuda, SlotsBeyondTwoToTheThirtyOne) {
  constexpr int64_t kStride = int64_t{1} << 24;
  constexpr int64_t kSlots = 151;
  constexpr int32_t kFar[] = {150, 129};
  for (const char* sizes : {"b=2 c=384", "b=2 n=2 c=384 layout=ds"}) {
    C c = case_of<C>(std::string("causal_conv1d_update ") + sizes, 80);
    ASSERT_TRUE(c.upload(kGpu).ok());
    Pool pool(kSlots, kStride, 3 * 384, sizeof(bf16));
    for (int64_t row = 0; row < 2; ++row) pool.put(kFar[row], device_slot(c.conv_state, c.state_indices.get_int(row)));
    DeviceBuffer indices;
    ASSERT_TRUE(DeviceBuffer::make(kGpu, sizeof kFar, &indices).ok());
    ASSERT_TRUE(indices.upload(0, kFar, sizeof kFar).ok());
    CausalConv1dUpdateArgs args = c.args();
    args.state_indices.data = indices.data();
    args.conv_state.data = pool.slot(0);
    args.conv_state.shape[0] = kSlots;
    args.conv_state.stride[0] = kStride;
    const Status status = causal_conv1d_update(args, launch());
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(synchronize(kGpu).ok());
    for (int64_t other = 0; other < kSlots; ++other) {
      if (other == kFar[0] || other == kFar[1]) continue;
      pool.expect_untouched(other, "history");
      if (HasFatalFailure()) return;
    }
    for (int64_t row = 0; row < 2; ++row) {
      pool.take(kFar[row], device_slot(c.conv_state, c.state_indices.get_int(row)));
    }
    ASSERT_TRUE(c.download().ok());
    const Verdict verdict = c.verify();
    EXPECT_TRUE(verdict.ok) << sizes << ": " << verdict.detail;
  }
}

// 1: sequences that are more than 2^31 elements apart
TEST_P(ConvOnCuda, RowsBeyondTwoToTheThirtyOne) {
  constexpr int64_t kStride = (int64_t{1} << 31) + 384;
  for (const bool output : {false, true}) {
    C c = case_of<C>("causal_conv1d_update b=2 c=384", 82);
    ASSERT_TRUE(c.upload(kGpu).ok());
    const FarRows far(output ? c.output : c.x, kStride, 384);
    CausalConv1dUpdateArgs args = c.args();
    if (output) {
      args.output = far.view();
    } else {
      args.x = far.view();
    }
    const Status status = causal_conv1d_update(args, launch());
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(synchronize(kGpu).ok());
    if (output) far.bring_back();
    ASSERT_TRUE(c.download().ok());
    const Verdict verdict = c.verify();
    EXPECT_TRUE(verdict.ok) << output << ": " << verdict.detail;
  }
}

// 2: 144 blocks for each of 1024 sequences, all of them live
TEST_P(ConvOnCuda, AThousandSequencesOfNinetySixHeads) {
  constexpr int64_t kSequences = 1024;
  constexpr int64_t kChannels = 3 * 128 * 96;
  C c = case_of<C>("causal_conv1d_update b=1 c=36864", 81);
  C small = c;
  ASSERT_TRUE(small.run(kGpu, launch()).ok());
  const Verdict verdict = small.verify();
  ASSERT_TRUE(verdict.ok) << verdict.detail;
  ASSERT_TRUE(c.upload(kGpu).ok());
  Pool pool(kSequences + 1, 3 * kChannels, 3 * kChannels, sizeof(bf16));
  std::vector<int32_t> slots(kSequences);
  for (int64_t i = 0; i < kSequences; ++i) {
    slots[static_cast<size_t>(i)] = static_cast<int32_t>(1 + i * 629 % kSequences);  // a permutation
    pool.put(i + 1, device_slot(c.conv_state, c.state_indices.get_int(0)));
  }
  DeviceBuffer indices;
  DeviceBuffer output;
  ASSERT_TRUE(DeviceBuffer::make(kGpu, kSequences * sizeof(int32_t), &indices).ok());
  ASSERT_TRUE(indices.upload(0, slots.data(), kSequences * sizeof(int32_t)).ok());
  ASSERT_TRUE(DeviceBuffer::make(kGpu, static_cast<size_t>(kSequences * kChannels) * sizeof(bf16), &output).ok());
  CausalConv1dUpdateArgs args = c.args();
  args.x.shape[0] = kSequences;
  args.x.stride[0] = 0;
  args.state_indices = view(reinterpret_cast<int32_t*>(indices.data()), {kSequences}, {}, kGpu);
  args.conv_state.data = pool.slot(0);
  args.conv_state.shape[0] = kSequences + 1;
  args.output = view(reinterpret_cast<bf16*>(output.data()), {kSequences, 1, kChannels}, {}, kGpu);
  const Status status = causal_conv1d_update(args, launch());
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_TRUE(synchronize(kGpu).ok());
  std::vector<bf16> got(static_cast<size_t>(kSequences * kChannels));
  ASSERT_TRUE(output.download(0, got.data(), got.size() * sizeof(bf16)).ok());
  const auto* want = reinterpret_cast<const std::byte*>(small.conv_state.host<bf16>() +
                                                        small.state_indices.get_int(0) * 3 * kChannels);
  for (int64_t i = 0; i < kSequences; ++i) {
    const bf16* row = &got[static_cast<size_t>(i * kChannels)];
    ASSERT_EQ(std::memcmp(row, small.output.host<bf16>(), static_cast<size_t>(kChannels) * sizeof(bf16)), 0) << i;
    pool.expect_slot(i + 1, want, "history");
    if (HasFatalFailure()) return;
  }
  pool.expect_untouched(0, "history");
}

INSTANTIATE_TEST_SUITE_P(CausalConv1dUpdate, ConvOnCuda, testing::ValuesIn(cuda_kernels_here("causal_conv1d_update")),
                         kernel_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ConvOnCuda);

}  // namespace
}  // namespace silt
