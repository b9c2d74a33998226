// kda_decode on an NVIDIA GPU: schedules, dependent launches, graphs, large sizes. The comments name the row of
// docs/cases.md. Every case of the operator runs on these kernels in test_kda_decode.cpp as well.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpu/test/gpu_neighbours.hpp"
#include "kda/decode/cases.hpp"
#include "kda/decode/cuda/cuda_sm90_heads.hpp"
#include "kda/shared/test/cuda_test.hpp"
#include "proof/room_test.hpp"

namespace silt {
namespace {

using kda_decode_cuda_sm90_heads::kSchedules;
using kda_decode_cuda_sm90_heads::launch_schedule;
using kda_decode_cuda_sm90_heads::Schedule;
using namespace cuda_test;

constexpr auto problem_of = parsed<KdaDecodeProblem>;

const Members<KdaDecodeCase> kRead = {
    &KdaDecodeCase::x,           &KdaDecodeCase::conv_weight, &KdaDecodeCase::conv_bias, &KdaDecodeCase::raw_gate,
    &KdaDecodeCase::raw_beta,    &KdaDecodeCase::A_log,       &KdaDecodeCase::dt_bias,   &KdaDecodeCase::state_indices,
    &KdaDecodeCase::output_gate, &KdaDecodeCase::norm_weight};
const Members<KdaDecodeCase> kWritten = {&KdaDecodeCase::state, &KdaDecodeCase::conv_state, &KdaDecodeCase::output};
std::vector<std::byte> written(const KdaDecodeCase& c) { return bytes_of(c, kWritten); }

Status launch_on(const KdaDecodeCase& c, const Schedule& schedule, const Launch& launch) {
  KdaDecodeProblem problem;
  const KdaDecodeArgs args = c.args();
  Status status = check(args, &problem);
  return status.ok() ? launch_schedule(schedule, problem, args, launch) : status;
}

std::string schedule_name(const testing::TestParamInfo<const Schedule*>& param) {
  return fmt::format("{}_{}", to_string(param.param->state), param.param->name);
}

/// The schedules where the native kernel runs, none elsewhere.
std::vector<const Schedule*> schedules_here() {
  std::vector<const Schedule*> all;
  DeviceFacts facts;
  if (!device_facts(kGpu, &facts).ok()) return all;
  if (!kda_decode_cuda_sm90_heads::accepts(problem_of("kda_decode b=1 h=1"), facts).accepted()) return all;
  for (const Schedule& schedule : kSchedules) all.push_back(&schedule);
  return all;
}

class Schedules : public testing::TestWithParam<const Schedule*> {
 protected:
  [[nodiscard]] std::string line(const std::string& sizes) const {
    return fmt::format("kda_decode {}{}", sizes, GetParam()->state == DType::bf16 ? " state=bf16" : "");
  }
};

// The short list for compute-sanitizer: every schedule and every path of the portable kernel once, on few blocks.
TEST(CudaReduced, EverySchedule) {
  for (const Schedule* schedule : schedules_here()) {
    for (const char* sizes : {"b=3 h=2 padded=1", "b=2 h=1 layout=ds bias=1 gate=softplus norm=0 null=-1"}) {
      const std::string line =
          fmt::format("kda_decode {}{}", sizes, schedule->state == DType::bf16 ? " state=bf16" : "");
      KdaDecodeCase c(problem_of(line), 30);
      ASSERT_TRUE(c.upload(kGpu).ok());
      ASSERT_TRUE(launch_on(c, *schedule, {}).ok());
      ASSERT_TRUE(synchronize(kGpu).ok());
      ASSERT_TRUE(c.download().ok());
      const Verdict verdict = c.verify();
      EXPECT_TRUE(verdict.ok) << schedule->name << " " << line << ": " << verdict.detail;
    }
  }
}

TEST(CudaReduced, PortableKernel) {
  DeviceFacts facts;
  if (!device_facts(kGpu, &facts).ok()) GTEST_SKIP() << "no NVIDIA device";
  for (const char* sizes : {"b=3 h=2 padded=1", "b=2 h=2 align=2 state_align=4", "b=2 h=1 state=bf16 layout=ds",
                            "b=2 h=1 state=bf16 align=2 state_align=2 norm=0"}) {
    KdaDecodeCase c(problem_of(std::string("kda_decode ") + sizes), 32);
    ASSERT_TRUE(c.run(kGpu, {.policy = Policy::require("cuda_sm80_rows")}).ok());
    const Verdict verdict = c.verify();
    EXPECT_TRUE(verdict.ok) << sizes << ": " << verdict.detail;
  }
}

// 25, 36b, 36c: every schedule on the same input: right, and bit-equal to the portable kernel, which shares the phases.
// Padding inside clusters, H = 5, one row per SM and one more, both layouts, every call key.
TEST_P(Schedules, AreRightAndBitEqual) {
  const char* kLines[] = {
      "b=5 h=5 padded=2",
      "b=7 h=12 padded=3 layout=ds bias=1 gate=softplus null=-1",
      "b=132 h=1 padded=20",
      "b=133 h=1 norm=0",
      "b=4 h=3 padded=4",
      "b=1 h=1",
      "b=2 h=96 bias=1",
      "b=5 h=4 x_stride=2564 gate_stride=2564 beta_stride=2564 output_gate_stride=2564 output_stride=520 align=8",
      "b=4 h=2 conv_slot_stride=40000 state_slot_stride=65536 slots=9 layout=ds",
      "b=6 h=3 lower_bound=-0.5 norm=0 gate=safe layout=ds",
  };
  for (const char* sizes : kLines) {
    const KdaDecodeCase fresh(problem_of(line(sizes)), 31);
    KdaDecodeCase c = fresh;
    ASSERT_TRUE(c.upload(kGpu).ok());
    const Status status = launch_on(c, *GetParam(), {});
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(synchronize(kGpu).ok());
    ASSERT_TRUE(c.download().ok());
    const Verdict verdict = c.verify();
    EXPECT_TRUE(verdict.ok) << line(sizes) << ": " << verdict.detail;
    KdaDecodeCase portable = fresh;
    ASSERT_TRUE(portable.run(kGpu, {.policy = Policy::require("cuda_sm80_rows")}).ok());
    const Verdict same = expect_bitwise("written", written(c), written(portable));
    EXPECT_TRUE(same.ok) << line(sizes) << ": " << same.detail;
  }
}

// 25, 36a: six launches over three sets, replayed three times, dependent launches on and off. An early trigger, a state
// loaded before its last writer is done or a history with two owners shows here and in no single launch.
TEST_P(Schedules, ChainsOverThreeSetsAreTheSameWithAndWithoutPdl) {
  for (const char* sizes : {"b=4 h=12 padded=1", "b=24 h=12 layout=ds", "b=60 h=12"}) {
    std::vector<KdaDecodeCase> fresh;
    for (uint64_t set = 0; set < 3; ++set) fresh.emplace_back(problem_of(line(sizes)), 40 + set);
    std::vector<std::byte> want;
    for (const std::pair<Pdl, bool>& mode : {std::pair(Pdl::off, false), {Pdl::wait, false}, {Pdl::late, true}}) {
      const Pdl pdl = mode.first;
      Schedule schedule = *GetParam();
      schedule.prefetch = mode.second;
      std::vector<KdaDecodeCase> sets = fresh;
      for (KdaDecodeCase& set : sets) ASSERT_TRUE(set.upload(kGpu).ok());
      const Stream stream;
      const Graph chain(stream, [&] {
        for (size_t i = 0; i < 6; ++i) {
          const Status status = launch_on(sets[i % 3], schedule, {.stream = stream.get(), .pdl = pdl});
          ASSERT_TRUE(status.ok()) << status.message();
        }
      });
      for (int replay = 0; replay < 3; ++replay) chain.replay();
      stream.wait();
      std::vector<std::byte> got;
      for (KdaDecodeCase& set : sets) {
        ASSERT_TRUE(set.download().ok());
        const std::vector<std::byte> bytes = written(set);
        got.insert(got.end(), bytes.begin(), bytes.end());
      }
      if (pdl == Pdl::off) want = got;
      const Verdict same = expect_bitwise("written", got, want);
      EXPECT_TRUE(same.ok) << line(sizes) << " pdl " << static_cast<int>(pdl) << ": " << same.detail;
    }
  }
}

/// What test::remix makes of an element.
float remixed(float value) { return to_float(bf16{static_cast<uint16_t>((to_bf16(value).bits & 0x807fu) | 0x3f00u)}); }

// 29: a producer that writes an input late, and lets this launch start before or after it has: right with the attribute
// and without. Until then the input is NaN, so that who reads it early shows.
TEST_P(Schedules, AroundALateProducer) {
  CaseTensor KdaDecodeCase::*const inputs[] = {&KdaDecodeCase::x, &KdaDecodeCase::raw_gate, &KdaDecodeCase::raw_beta,
                                               &KdaDecodeCase::output_gate};
  for (const auto input : inputs) {
    KdaDecodeCase fresh(problem_of(line("b=4 h=3 padded=1")), 45);
    CaseTensor& late = fresh.*input;
    const CaseTensor source = late;
    late.fill([&](int64_t i) { return remixed(source.get(i)); });
    for (const std::pair<Pdl, bool>& mode : {std::pair(Pdl::off, false), {Pdl::wait, false}, {Pdl::late, true}}) {
      for (const bool early : {false, true}) {
        Schedule schedule = *GetParam();
        schedule.prefetch = mode.second;
        KdaDecodeCase c = fresh;
        CaseTensor from = source;
        const Stream stream;
        ASSERT_TRUE(c.upload(kGpu).ok() && from.to_device(kGpu).ok());
        auto* to = static_cast<uint16_t*>((c.*input).view().data);
        const int64_t count = source.elements();
        expect_ok(cudaMemsetAsync(to, 0xff, static_cast<size_t>(count) * sizeof(uint16_t), stream.get()));
        expect_ok(
            test::remix(static_cast<const uint16_t*>(from.view().data), to, count, {true, early, 30}, stream.get()));
        const Status status = launch_on(c, schedule, {.stream = stream.get(), .pdl = mode.first});
        ASSERT_TRUE(status.ok()) << status.message();
        stream.wait();
        ASSERT_TRUE(c.download().ok());
        const Verdict verdict = c.verify();
        EXPECT_TRUE(verdict.ok) << "pdl " << static_cast<int>(mode.first) << ", early " << early << ": "
                                << verdict.detail;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(KdaDecode, Schedules, testing::ValuesIn(schedules_here()), schedule_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Schedules);

class CudaKernels : public testing::TestWithParam<KernelHere> {
 protected:
  [[nodiscard]] Launch launch(const Stream& stream, Pdl pdl = Pdl::wait) const {
    return {.stream = stream.get(), .pdl = pdl, .policy = Policy::require(GetParam().kernel)};
  }
};

// 7: a captured graph follows what it finds: other slots, other inputs, more and fewer padding rows
TEST_P(CudaKernels, AGraphFollowsItsMemory) {
  for (const char* sizes : {"b=6 h=12 slots=20", "b=1 h=12 slots=20", "b=90 h=12 slots=95"}) {
    const std::string line = std::string("kda_decode ") + sizes;
    KdaDecodeCase captured(problem_of(line + " padded=1"), 50);
    ASSERT_TRUE(captured.upload(kGpu).ok());
    const Stream stream;
    const Graph graph(stream, [&] { ASSERT_TRUE(kda_decode(captured.args(), launch(stream)).ok()); });
    for (const int padded : {0, 1}) {
      KdaDecodeCase next(problem_of(fmt::format("{} padded={}", line, padded)), 51 + static_cast<uint64_t>(padded));
      expect_replay_is_right(graph, stream, captured, next, kRead, kWritten);
    }
  }
}

// 26: a hundred runs while another stream keeps the memory busy
TEST_P(CudaKernels, AHundredRunsOnABusyGpuAreTheSame) {
  for (const char* sizes : {"b=1 h=12", "b=25 h=12", "b=5 h=32 layout=ds state=bf16"}) {
    const KdaDecodeCase fresh(problem_of(std::string("kda_decode ") + sizes), 60);
    expect_a_hundred_equal_runs(fresh, kWritten, [&](const KdaDecodeCase& c, const Stream& stream) {
      return kda_decode(c.args(), launch(stream));
    });
  }
}

// 27: among 288 items (one schedule) and alone (another)
TEST_P(CudaKernels, ARowDependsOnItselfOnly) {
  for (const char* key : {"", " state=bf16 layout=ds"}) {
    KdaDecodeCase many(problem_of(fmt::format("kda_decode b=24 h=12{}", key)), 70);
    KdaDecodeCase alone(problem_of(fmt::format("kda_decode b=1 h=12 slots=25{}", key)), 70);
    const KdaDecodeCase fresh = many;
    ASSERT_TRUE(many.run(kGpu, {.policy = Policy::require(GetParam().kernel)}).ok());
    for (const int64_t row : {0, 11, 23}) {
      alone.conv_weight = fresh.conv_weight;
      alone.conv_state = fresh.conv_state;
      alone.A_log = fresh.A_log;
      alone.dt_bias = fresh.dt_bias;
      alone.state = fresh.state;
      alone.norm_weight = fresh.norm_weight;
      const int64_t p = fresh.problem.p();
      for (int64_t i = 0; i < 3 * p; ++i) alone.x.set(i, fresh.x.get(row * 3 * p + i));
      for (int64_t i = 0; i < p; ++i) alone.raw_gate.set(i, fresh.raw_gate.get(row * p + i));
      for (int64_t i = 0; i < p; ++i) alone.output_gate.set(i, fresh.output_gate.get(row * p + i));
      for (int64_t i = 0; i < 12; ++i) alone.raw_beta.set(i, fresh.raw_beta.get(row * 12 + i));
      alone.state_indices.set_int(0, fresh.state_indices.get_int(row));
      ASSERT_TRUE(alone.run(kGpu, {.policy = Policy::require(GetParam().kernel)}).ok());
      for (int64_t i = 0; i < p; ++i) ASSERT_EQ(alone.output.get(i), many.output.get(row * p + i)) << row << " " << i;
      const int64_t slot = fresh.state_indices.get_int(row);
      for (int64_t i = slot * p * 128; i < (slot + 1) * p * 128; ++i) {
        ASSERT_EQ(alone.state.get(i), many.state.get(i)) << row << " " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(KdaDecode, CudaKernels, testing::ValuesIn(cuda_kernels_here("kda_decode")), kernel_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CudaKernels);

}  // namespace
}  // namespace silt
