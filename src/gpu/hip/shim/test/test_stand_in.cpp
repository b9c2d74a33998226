// The stand-in device finds what it must find: kernels with one fault each.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>

#include "gpu/hip/device.hpp"
#include "gpu/hip/shim/workgroup.hpp"

namespace silt::hip {
namespace {

struct Args {
  Global<float> output;
};
constexpr uint32_t kThreads = 256;

SILT_DEVICE uint32_t lane() { return thread_id() % kWaveLanes; }
SILT_DEVICE uint32_t wave() { return thread_id() / kWaveLanes; }

/// Local memory, both widths of moves, a barrier: nothing wrong with it.
SILT_KERNEL(right, Args, kThreads, 1) {
  const Lds lds = lds_floats<kThreads>();
  lds_put(lds, thread_id(), static_cast<float>(thread_id()));
  lds_barrier();
  const float other = lds_get(lds, kThreads - 1 - thread_id());
  store(args.output + thread_id(), other + rotate16<1>(static_cast<float>(lane())) +
                                       broadcast16<3>(static_cast<float>(lane())) +
                                       static_cast<float>(uniform(wave())));
}
SILT_KERNEL(carries, Args, kThreads, 1) {
  const auto v = static_cast<float>(lane());
  store(args.output + thread_id(), carry16(v) + 100.0F * carry32(v));
}
SILT_KERNEL(wave_sums, Args, kThreads, 1) {
  store(args.output + thread_id(), sum64_last(static_cast<float>(thread_id())));
}
SILT_KERNEL(no_barrier, Args, kThreads, 1) {
  const Lds lds = lds_floats<kThreads>();
  lds_put(lds, thread_id(), 1.0F);
  store(args.output + thread_id(), lds_get(lds, kThreads - 1 - thread_id()));
}
SILT_KERNEL(barrier_of_three_waves, Args, kThreads, 1) {
  if (wave() < 3) lds_barrier();
  store(args.output + thread_id(), 1.0F);
}
SILT_KERNEL(barrier_of_half_a_wave, Args, kThreads, 1) {
  if (lane() < 32) lds_barrier();
  store(args.output + thread_id(), 1.0F);
}
SILT_KERNEL(two_barriers, Args, kThreads, 1) {
  if (wave() < 2) {
    lds_barrier();
  } else {
    lds_barrier();
  }
  store(args.output + thread_id(), 1.0F);
}
SILT_KERNEL(never_written, Args, kThreads, 1) {
  const Lds lds = lds_floats<kThreads>();
  if (thread_id() != 77) lds_put(lds, thread_id(), 1.0F);
  lds_barrier();
  store(args.output + thread_id(), lds_get(lds, thread_id()));
}
SILT_KERNEL(move_in_a_branch, Args, kThreads, 1) {
  float v = 1.0F;
  if (lane() % 2 == 0) v = rotate16<2>(v);
  store(args.output + thread_id(), v);
}
SILT_KERNEL(not_uniform, Args, kThreads, 1) {
  store(args.output + thread_id(), static_cast<float>(uniform(lane() / 63)));
}
SILT_KERNEL(not_scalar, Args, kThreads, 1) { store(scalar_base<float>(args.output + wave() * 64 + lane() / 63), 1.0F); }
SILT_KERNEL(behind_the_end, Args, kThreads, 1) { store(args.output + 1 + thread_id(), 1.0F); }
SILT_KERNEL(write_over_a_read, Args, kThreads, 1) {
  const Lds lds = lds_floats<kThreads>();
  lds_put(lds, thread_id(), 1.0F);
  lds_barrier();
  const float v = lds_get(lds, (thread_id() + 64) % kThreads);
  lds_put(lds, thread_id(), v);
}
SILT_KERNEL(two_writers, Args, kThreads, 1) { lds_put(lds_floats<4>(), 1, 1.0F); }
SILT_KERNEL(outside, Args, kThreads, 1) { lds_put(lds_floats<4>(), 4 + thread_id(), 1.0F); }
SILT_KERNEL(misaligned, Args, kThreads, 1) {
  store(args.output + thread_id(), load<f32x4>(args.output + thread_id())[0]);
}
SILT_KERNEL(value_of_the_other_branch, Args, kThreads, 1) {
  float v SILT_UNSET;
  if (wave() == 0) v = 1.0F;
  store(args.output + thread_id(), v);
}

const shim::Kernel& find(const std::string& symbol) {
  for (const shim::Kernel& kernel : shim::kernels()) {
    if (kernel.symbol == symbol) return kernel;
  }
  ADD_FAILURE() << symbol;
  return shim::kernels().front();
}

struct Outcome {
  bool ok = false;
  std::string failure;
  std::vector<float> output;
};

Outcome run(const std::string& symbol, bool reverse) {
  Outcome made;
  alignas(16) float output[kThreads] = {};
  const Args args{output};
  shim::Workgroup group;
  const shim::Kernel& kernel = find(symbol);
  made.ok = group.run(5, kernel.most_threads, reverse, kernel.body, &args);
  made.failure = group.failure();
  made.output.assign(output, output + kThreads);
  // The same workgroup object is of use after a failure.
  EXPECT_TRUE(group.run(0, kThreads, reverse, find("right").body, &args));
  return made;
}

TEST(StandIn, RunsARightKernel) {
  for (const bool reverse : {false, true}) {
    const Outcome made = run("right", reverse);
    ASSERT_TRUE(made.ok) << made.failure;
    for (uint32_t i = 0; i < kThreads; ++i) {
      const uint32_t rotated = (i % 64 & 48u) | ((i - 1) & 15u);
      EXPECT_EQ(made.output[i], static_cast<float>(kThreads - 1 - i + rotated + (i % 64 & 48u) + 3 + i / 64)) << i;
    }
  }
}

TEST(StandIn, CarriesBetweenRowsOfLanes) {
  const Outcome carried = run("carries", false);
  const Outcome summed = run("wave_sums", true);
  ASSERT_TRUE(carried.ok && summed.ok) << carried.failure << summed.failure;
  for (uint32_t i = 0; i < kThreads; ++i) {
    const uint32_t row = i % 64 / 16;
    const float before = row == 0 ? 0.0F : static_cast<float>(16 * row - 1);
    EXPECT_EQ(carried.output[i], before + (row >= 2 ? 3100.0F : 0.0F)) << i;
  }
  for (uint32_t wave = 0; wave < kThreads / 64; ++wave) {
    EXPECT_EQ(summed.output[64 * wave + 63], static_cast<float>(64 * 64 * wave + 63 * 32)) << wave;
  }
}

TEST(StandIn, FindsEveryFault) {
  const std::pair<const char*, const char*> faults[] = {
      {"barrier_of_three_waves", "a barrier that part of the workgroup reached"},
      {"barrier_of_half_a_wave", "a barrier that part of the workgroup reached"},
      {"two_barriers", "a barrier that part of the workgroup reached"},
      {"never_written", "a read of local memory that was never written (workgroup 5, thread 77, line "},
      {"move_in_a_branch", "a move between lanes that part of the wave reached"},
      {"not_uniform", "a value that is not uniform (workgroup 5, thread 63, "},
      {"not_scalar", "an address that is not uniform (workgroup 5, thread 63, "},
      {"write_over_a_read", "a write over what another wave reads, with no barrier between"},
      {"two_writers", "two lanes that write the same local memory"},
      {"outside", "a write outside the local memory"},
      {"misaligned", "a misaligned load (workgroup 5, thread 1, "},
  };
  for (const auto& [symbol, text] : faults) {
    for (const bool reverse : {false, true}) {
      const Outcome made = run(symbol, reverse);
      EXPECT_FALSE(made.ok) << symbol;
      if (reverse) continue;  // another lane may be first to see it
      EXPECT_EQ(made.failure.substr(0, std::string(text).size()), text) << symbol;
    }
  }
  // Who is first without a barrier decides what is seen: a float that was not written, or another lane's.
  EXPECT_EQ(run("no_barrier", false).failure.substr(0, 46), "a read of local memory that was never written ");
  EXPECT_FALSE(run("no_barrier", true).ok);
}

TEST(StandIn, AValueOfTheOtherBranchIsNaN) {
  const Outcome made = run("value_of_the_other_branch", false);
  ASSERT_TRUE(made.ok);
  for (uint32_t i = 0; i < kThreads; ++i) EXPECT_EQ(std::isnan(made.output[i]), i >= 64) << i;
}

#if SILT_SHIM_ASAN
/// The address sanitizer sees a kernel's accesses, on the fibers' stacks as well.
TEST(StandInDeathTest, AStoreBehindTheEndIsFound) {
  const auto output = std::make_unique<float[]>(kThreads);
  const Args args{output.get()};
  shim::Workgroup group;
  EXPECT_DEATH(group.run(0, kThreads, false, find("behind_the_end").body, &args), "heap-buffer-overflow");
}
#endif

}  // namespace
}  // namespace silt::hip
