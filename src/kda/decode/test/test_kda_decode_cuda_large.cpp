// kda_decode on an NVIDIA GPU at sizes that host memory need not hold: a small case supplies every value, copies on the
// device make the large one, and the small one's results are what the large one must reproduce bit for bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "kda/decode/cases.hpp"
#include "kda/shared/test/cuda_test.hpp"
#include "proof/room_test.hpp"

namespace silt {
namespace {

using namespace cuda_test;

constexpr int64_t kHeads = 96;

constexpr auto problem_of = parsed<KdaDecodeProblem>;

/// A tensor of `rows` rows on the device, row r being row r % n of a contiguous tensor of n rows.
class Repeated {
 public:
  Repeated(const CaseTensor& source, int64_t rows) {
    view_ = source.view();
    const int64_t n = view_.shape[0];
    const size_t row_bytes = static_cast<size_t>(view_.stride[0]) * size_of(view_.dtype);
    EXPECT_TRUE(DeviceBuffer::make(kGpu, static_cast<size_t>(rows) * row_bytes, &buffer_).ok());
    const auto* from = static_cast<const std::byte*>(view_.data);
    for (int64_t row = 0; row < rows; ++row) {
      expect_ok(cudaMemcpyAsync(buffer_.data() + static_cast<size_t>(row) * row_bytes,
                                from + static_cast<size_t>(row % n) * row_bytes, row_bytes, cudaMemcpyDeviceToDevice,
                                nullptr));
    }
    view_.data = buffer_.data();
    view_.shape[0] = rows;
  }
  [[nodiscard]] const TensorView& view() const { return view_; }

 private:
  TensorView view_;
  DeviceBuffer buffer_;
};

class Large : public testing::TestWithParam<KernelHere> {
 protected:
  [[nodiscard]] Launch launch() const {
    Launch launch;
    launch.policy = Policy::require(GetParam().kernel);
    return launch;
  }
};

/// A small case, run and verified, and its inputs on the device as they were before.
struct Small {
  Small(const std::string& line, const Launch& launch) : before(problem_of(line), 80), after(before) {
    EXPECT_TRUE(after.run(kGpu, launch).ok());
    const Verdict verdict = after.verify();
    EXPECT_TRUE(verdict.ok) << verdict.detail;
    EXPECT_TRUE(before.upload(kGpu).ok());
  }
  [[nodiscard]] int64_t rows() const { return before.problem.b; }
  [[nodiscard]] int64_t slot_of(int64_t row) const { return before.state_indices.get_int(row % rows()); }
  static const std::byte* host_slot(CaseTensor& pool, int64_t slot) {
    const TensorView view = pool.host_view();
    return static_cast<const std::byte*>(view.data) + static_cast<size_t>(slot * view.stride[0]) * size_of(view.dtype);
  }

  KdaDecodeCase before;
  KdaDecodeCase after;
};

// 2, 27: 98,304 (row, head) pairs; every row has the bits it has in a batch of seven
TEST_P(Large, AThousandRowsOfNinetySixHeads) {
  constexpr int64_t kRows = 1024;
  constexpr int64_t kSlots = kRows + 1;
  Small small(fmt::format("kda_decode b=7 h={}", kHeads), launch());
  const int64_t p = kHeads * 128;
  Pool state(kSlots, p * 128, p * 128, sizeof(float));
  Pool history(kSlots, 9 * p, 9 * p, sizeof(bf16));
  // Row r lives in slot 1 + 629 r mod 1024: a permutation.
  std::vector<int32_t> slots(kRows);
  for (int64_t row = 0; row < kRows; ++row) {
    slots[static_cast<size_t>(row)] = static_cast<int32_t>(1 + row * 629 % kRows);
    state.put(slots[static_cast<size_t>(row)], device_slot(small.before.state, small.slot_of(row)));
    history.put(slots[static_cast<size_t>(row)], device_slot(small.before.conv_state, small.slot_of(row)));
  }
  const Repeated x(small.before.x, kRows);
  const Repeated raw_gate(small.before.raw_gate, kRows);
  const Repeated raw_beta(small.before.raw_beta, kRows);
  const Repeated output_gate(small.before.output_gate, kRows);
  const Repeated output(small.before.output, kRows);
  DeviceBuffer indices;
  ASSERT_TRUE(DeviceBuffer::make(kGpu, kRows * sizeof(int32_t), &indices).ok());
  ASSERT_TRUE(indices.upload(0, slots.data(), kRows * sizeof(int32_t)).ok());

  KdaDecodeArgs args = small.before.args();
  args.x = x.view();
  args.raw_gate = raw_gate.view();
  args.raw_beta = raw_beta.view();
  args.output_gate = output_gate.view();
  args.output = output.view();
  args.state_indices = view(reinterpret_cast<int32_t*>(indices.data()), {kRows}, {}, kGpu);
  args.state = view(reinterpret_cast<float*>(state.slot(0)), {kSlots, kHeads, 128, 128}, {}, kGpu);
  args.conv_state = view(reinterpret_cast<bf16*>(history.slot(0)), {kSlots, 3 * p, 3}, {9 * p, 1, 3 * p}, kGpu);
  const Status status = kda_decode(args, launch());
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_TRUE(synchronize(kGpu).ok());

  std::vector<bf16> got(static_cast<size_t>(kRows * p));
  expect_ok(cudaMemcpy(got.data(), args.output.data, got.size() * sizeof(bf16), cudaMemcpyDeviceToHost));
  for (int64_t row = 0; row < kRows; ++row) {
    const std::byte* want = Small::host_slot(small.after.output, row % small.rows());
    ASSERT_EQ(std::memcmp(&got[static_cast<size_t>(row * p)], want, static_cast<size_t>(p) * sizeof(bf16)), 0) << row;
    const int32_t slot = slots[static_cast<size_t>(row)];
    state.expect_slot(slot, Small::host_slot(small.after.state, small.slot_of(row)), "state");
    history.expect_slot(slot, Small::host_slot(small.after.conv_state, small.slot_of(row)), "history");
    if (HasFatalFailure()) return;
  }
  state.expect_untouched(0, "state");
  history.expect_untouched(0, "history");
}

// 1: slots beyond 2^31 elements of state and of history; nothing else in either pool is touched
TEST_P(Large, SlotsBeyondTwoToTheThirtyOne) {
  constexpr int64_t kSlots = 1402;
  constexpr int64_t kHistoryStride = 2'000'000;
  Small small(fmt::format("kda_decode b=3 h={}", kHeads), launch());
  const int64_t p = kHeads * 128;
  Pool state(kSlots, p * 128, p * 128, sizeof(float));
  Pool history(kSlots, kHistoryStride, 9 * p, sizeof(bf16));
  const int32_t slots[] = {1, 1366, 1401};  // 1366 * 96 * 128 * 128 is the first beyond 2^31
  static_assert(int64_t{1366} * kHeads * 128 * 128 > int64_t{1} << 31);
  static_assert(int64_t{1366} * kHistoryStride > int64_t{1} << 31);
  for (int64_t row = 0; row < 3; ++row) {
    state.put(slots[row], device_slot(small.before.state, small.slot_of(row)));
    history.put(slots[row], device_slot(small.before.conv_state, small.slot_of(row)));
  }
  DeviceBuffer indices;
  ASSERT_TRUE(DeviceBuffer::make(kGpu, sizeof slots, &indices).ok());
  ASSERT_TRUE(indices.upload(0, slots, sizeof slots).ok());
  KdaDecodeArgs args = small.before.args();
  args.state_indices = view(reinterpret_cast<int32_t*>(indices.data()), {3}, {}, kGpu);
  args.state = view(reinterpret_cast<float*>(state.slot(0)), {kSlots, kHeads, 128, 128}, {}, kGpu);
  args.conv_state =
      view(reinterpret_cast<bf16*>(history.slot(0)), {kSlots, 3 * p, 3}, {kHistoryStride, 1, 3 * p}, kGpu);
  const Status status = kda_decode(args, launch());
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_TRUE(synchronize(kGpu).ok());
  for (int64_t slot = 0; slot < kSlots; ++slot) {
    const auto* live = std::find(std::begin(slots), std::end(slots), slot);
    if (live == std::end(slots)) {
      state.expect_untouched(slot, "state");
      history.expect_untouched(slot, "history");
    } else {
      const int64_t from = small.slot_of(live - std::begin(slots));
      state.expect_slot(slot, Small::host_slot(small.after.state, from), "state");
      history.expect_slot(slot, Small::host_slot(small.after.conv_state, from), "history");
    }
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(KdaDecode, Large, testing::ValuesIn(cuda_kernels_here("kda_decode")), kernel_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Large);

}  // namespace
}  // namespace silt
