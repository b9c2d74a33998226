// kda_recurrence on an NVIDIA GPU: graphs, a busy GPU, large sizes. The comments name the row of docs/cases.md. Every
// case of the operator runs on these kernels in test_kda_recurrence.cpp as well.
#include "kda/recurrence/cases.hpp"
#include "kda/shared/test/cuda_test.hpp"

namespace silt {
namespace {

using namespace cuda_test;

using C = KdaRecurrenceCase;
const Members<C> kRead = {&C::q,     &C::k,       &C::v,       &C::raw_gate,      &C::raw_beta,
                          &C::A_log, &C::dt_bias, &C::offsets, &C::state_indices, &C::accepted};
const Members<C> kWritten = {&C::state, &C::output};

// The short list for compute-sanitizer: every form of the portable kernel once, on few blocks.
TEST(CudaReduced, KdaRecurrence) {
  if (!has_gpu()) GTEST_SKIP() << "no NVIDIA device";
  for (const char* sizes :
       {"seqs=3x3 h=2 t=11 lengths=ragged padded=1", "seqs=2x2 h=1 columns=3 state=bf16 padded=1 gate=softplus",
        "seqs=2x1 h=2 offsets=0 qkv=f32", "seqs=1x3 h=1 qkv=f32 state=bf16 output=bf16",
        "seqs=2x2 h=1 q_stride=129 k_stride=131 v_stride=133 gate_stride=135 output_stride=129 align=2",
        "seqs=2x2 h=1 state=bf16 align=2", "seqs=2x2 h=1 qkv=f32 align=4",
        "seqs=2x2 h=1 columns=2 qkv=f32 state=bf16 align=4"}) {
    C c = case_of<C>(std::string("kda_recurrence ") + sizes, 30);
    ASSERT_TRUE(c.run(kGpu, {.policy = Policy::require("cuda_sm80_rows")}).ok()) << sizes;
    const Verdict verdict = c.verify();
    EXPECT_TRUE(verdict.ok) << sizes << ": " << verdict.detail;
  }
}

class RecurrenceOnCuda : public testing::TestWithParam<KernelHere> {
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

// 7: a captured graph follows what it finds: other slots, counts, lengths and inputs, more and fewer padding sequences
TEST_P(RecurrenceOnCuda, AGraphFollowsItsMemory) {
  for (const char* sizes : {"seqs=6x3 h=12 t=20 lengths=ragged slots=20", "seqs=6x3 h=3 columns=4 slots=40 state=bf16",
                            "seqs=40x1 h=12 offsets=0 slots=45"}) {
    const std::string line = std::string("kda_recurrence ") + sizes;
    C captured = case_of<C>(line + " padded=1", 50);
    ASSERT_TRUE(captured.upload(kGpu).ok());
    const Stream stream;
    const Graph graph(stream, [&] { ASSERT_TRUE(kda_recurrence(captured.args(), launch(stream)).ok()); });
    for (const int padded : {0, 1, 3}) {
      C next = case_of<C>(fmt::format("{} padded={}", line, padded), 51 + static_cast<uint64_t>(padded));
      expect_replay_is_right(graph, stream, captured, next, kRead, kWritten);
    }
  }
}

// 26: a hundred runs while another stream keeps the memory busy
TEST_P(RecurrenceOnCuda, AHundredRunsOnABusyGpuAreTheSame) {
  for (const char* sizes : {"seqs=1x1 h=12 offsets=0", "seqs=25x2 h=12", "seqs=5x7 h=16 columns=5 state=bf16"}) {
    const C fresh = case_of<C>(std::string("kda_recurrence ") + sizes, 60);
    expect_a_hundred_equal_runs(
        fresh, kWritten, [&](const C& c, const Stream& stream) { return kda_recurrence(c.args(), launch(stream)); });
  }
}

/// Rows [row, row + count) of `from` to rows 0.. of `to`.
void copy_rows(const CaseTensor& from, CaseTensor& to, int64_t row, int64_t count, int64_t length) {
  for (int64_t i = 0; i < count * length; ++i) to.set(i, from.get(row * length + i));
}

// 27: a sequence among 24, and alone at another position and slot
TEST_P(RecurrenceOnCuda, ASequenceDependsOnItselfOnly) {
  for (const char* key : {"", " state=bf16 gate=softplus"}) {
    constexpr int64_t kTokens = 3;
    C many = case_of<C>(fmt::format("kda_recurrence seqs=24x3 h=12{}", key), 70);
    C alone = case_of<C>(fmt::format("kda_recurrence seqs=1x3 h=12 slots=2{}", key), 71);
    const C fresh = many;
    const int64_t p = fresh.problem.p();
    ASSERT_TRUE(many.run(kGpu, launch()).ok());
    for (const int64_t sequence : {0, 11, 23}) {
      const int64_t row = sequence * kTokens;
      copy_rows(fresh.q, alone.q, row, kTokens, p);
      copy_rows(fresh.k, alone.k, row, kTokens, p);
      copy_rows(fresh.v, alone.v, row, kTokens, p);
      copy_rows(fresh.raw_gate, alone.raw_gate, row, kTokens, p);
      copy_rows(fresh.raw_beta, alone.raw_beta, row, kTokens, 12);
      alone.A_log = fresh.A_log;
      alone.dt_bias = fresh.dt_bias;
      const int64_t slot = fresh.state_indices.get_int(sequence);
      for (int64_t i = 0; i < p * 128; ++i) alone.state.set(p * 128 + i, fresh.state.get(slot * p * 128 + i));
      alone.state_indices.set_int(0, 1);
      ASSERT_TRUE(alone.run(kGpu, launch()).ok());
      for (int64_t i = 0; i < kTokens * p; ++i) {
        ASSERT_EQ(alone.output.get(i), many.output.get(row * p + i)) << sequence << " " << i;
      }
      for (int64_t i = 0; i < p * 128; ++i) {
        ASSERT_EQ(alone.state.get(p * 128 + i), many.state.get(slot * p * 128 + i)) << sequence << " " << i;
      }
    }
  }
}

// 1: slots beyond 2^31 elements, in place and read from one column of a table and written to another
TEST_P(RecurrenceOnCuda, SlotsBeyondTwoToTheThirtyOne) {
  constexpr int64_t kSlots = 1402;
  constexpr int32_t kFar[] = {1366, 1401, 1400, 1399};
  static_assert(int64_t{1366} * 96 * 128 * 128 > int64_t{1} << 31);
  for (const char* sizes : {"seqs=3x2 h=96", "seqs=2x2 h=96 columns=2"}) {
    C c = case_of<C>(std::string("kda_recurrence ") + sizes, 80);
    ASSERT_TRUE(c.upload(kGpu).ok());
    const int64_t slot = c.problem.state_slot_stride;
    Pool pool(kSlots, slot, slot, sizeof(float));
    // Each live slot moves to one of the far ones; a column that is not stored stays.
    const int64_t used = c.state_indices.elements();
    ASSERT_LE(used, 4);
    std::vector<int32_t> far(kFar, kFar + used);
    for (int64_t i = 0; i < used; ++i) {
      const int32_t near = c.state_indices.get_int(i);
      if (near > 0) pool.put(kFar[i], device_slot(c.state, near));
      if (near <= 0) far[static_cast<size_t>(i)] = near;
    }
    DeviceBuffer indices;
    ASSERT_TRUE(DeviceBuffer::make(kGpu, far.size() * sizeof(int32_t), &indices).ok());
    ASSERT_TRUE(indices.upload(0, far.data(), far.size() * sizeof(int32_t)).ok());
    KdaRecurrenceArgs args = c.args();
    args.state_indices.data = indices.data();
    args.state = view(reinterpret_cast<float*>(pool.slot(0)), {kSlots, 96, 128, 128}, {}, kGpu);
    const Status status = kda_recurrence(args, launch());
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(synchronize(kGpu).ok());
    for (int64_t other = 0; other < kSlots; ++other) {
      if (std::find(far.begin(), far.end(), other) != far.end()) continue;
      pool.expect_untouched(other, "state");
      if (HasFatalFailure()) return;
    }
    for (int64_t i = 0; i < used; ++i) {
      if (far[static_cast<size_t>(i)] > 0) pool.take(kFar[i], device_slot(c.state, c.state_indices.get_int(i)));
    }
    ASSERT_TRUE(c.download().ok());
    const Verdict verdict = c.verify();
    EXPECT_TRUE(verdict.ok) << sizes << ": " << verdict.detail;
  }
}

// 2: 98,304 (sequence, head) pairs, all of them live: every sequence gets the same inputs and has the same results
TEST_P(RecurrenceOnCuda, AThousandSequencesOfNinetySixHeads) {
  constexpr int64_t kSequences = 1024;
  constexpr int64_t kSlots = kSequences + 1;
  C c = case_of<C>("kda_recurrence seqs=1x1 h=96 offsets=0 state=bf16", 81);
  const int64_t p = c.problem.p();
  C small = c;
  ASSERT_TRUE(small.run(kGpu, launch()).ok());
  const Verdict verdict = small.verify();
  ASSERT_TRUE(verdict.ok) << verdict.detail;
  ASSERT_TRUE(c.upload(kGpu).ok());
  Pool pool(kSlots, p * 128, p * 128, sizeof(bf16));
  std::vector<int32_t> slots(kSequences);
  for (int64_t i = 0; i < kSequences; ++i) {
    slots[static_cast<size_t>(i)] = static_cast<int32_t>(1 + i * 629 % kSequences);  // a permutation
    pool.put(i + 1, device_slot(c.state, c.state_indices.get_int(0)));
  }
  DeviceBuffer indices;
  DeviceBuffer output;
  ASSERT_TRUE(DeviceBuffer::make(kGpu, kSequences * sizeof(int32_t), &indices).ok());
  ASSERT_TRUE(indices.upload(0, slots.data(), kSequences * sizeof(int32_t)).ok());
  ASSERT_TRUE(DeviceBuffer::make(kGpu, static_cast<size_t>(kSequences * p) * sizeof(bf16), &output).ok());
  KdaRecurrenceArgs args = c.args();
  for (ConstTensorView* input : {&args.q, &args.k, &args.v, &args.raw_gate, &args.raw_beta}) {
    input->shape[0] = kSequences;
    input->stride[0] = 0;
  }
  args.state_indices = view(reinterpret_cast<int32_t*>(indices.data()), {kSequences}, {}, kGpu);
  args.state = view(reinterpret_cast<bf16*>(pool.slot(0)), {kSlots, 96, 128, 128}, {}, kGpu);
  args.output = view(reinterpret_cast<bf16*>(output.data()), {kSequences, 96, 128}, {}, kGpu);
  const Status status = kda_recurrence(args, launch());
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_TRUE(synchronize(kGpu).ok());
  std::vector<bf16> got(static_cast<size_t>(kSequences * p));
  ASSERT_TRUE(output.download(0, got.data(), got.size() * sizeof(bf16)).ok());
  const auto row_bytes = static_cast<size_t>(p) * sizeof(bf16);
  const auto* want =
      reinterpret_cast<const std::byte*>(small.state.host<bf16>() + small.state_indices.get_int(0) * p * 128);
  for (int64_t i = 0; i < kSequences; ++i) {
    ASSERT_EQ(std::memcmp(&got[static_cast<size_t>(i * p)], small.output.host<bf16>(), row_bytes), 0) << i;
    pool.expect_slot(i + 1, want, "state");
    if (HasFatalFailure()) return;
  }
  pool.expect_untouched(0, "state");
}

// 1: rows that are more than 2^31 elements apart
TEST_P(RecurrenceOnCuda, RowsBeyondTwoToTheThirtyOne) {
  constexpr int64_t kStride = (int64_t{1} << 31) + 256;
  C c = case_of<C>("kda_recurrence seqs=2x1 h=2 offsets=0", 82);
  for (int which = 0; which < 6; ++which) {
    CaseTensor C::*const members[] = {&C::q, &C::k, &C::v, &C::raw_gate, &C::raw_beta, &C::output};
    CaseTensor& tensor = c.*members[which];
    ASSERT_TRUE(c.upload(kGpu).ok());
    const FarRows far(tensor, kStride, which == 4 ? 2 : 256);
    KdaRecurrenceArgs args = c.args();
    if (which == 0) args.q = far.view();
    if (which == 1) args.k = far.view();
    if (which == 2) args.v = far.view();
    if (which == 3) args.raw_gate = far.view();
    if (which == 4) args.raw_beta = far.view();
    if (which == 5) args.output = far.view();
    const Status status = kda_recurrence(args, launch());
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(synchronize(kGpu).ok());
    if (which == 5) far.bring_back();
    C after = c;
    ASSERT_TRUE(after.download().ok());
    const Verdict verdict = after.verify();
    EXPECT_TRUE(verdict.ok) << which << ": " << verdict.detail;
  }
}

INSTANTIATE_TEST_SUITE_P(KdaRecurrence, RecurrenceOnCuda, testing::ValuesIn(cuda_kernels_here("kda_recurrence")),
                         kernel_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RecurrenceOnCuda);

}  // namespace
}  // namespace silt
