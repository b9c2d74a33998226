// kda_decode on NVIDIA GPUs: which kernel and schedule a device takes, without the device.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "kda/decode/cases.hpp"
#include "kda/decode/cuda/cuda_sm90_heads.hpp"
#include "proof/room_test.hpp"

namespace silt {
namespace {

using kda_decode_cuda_sm90_heads::choose_schedule;
using kda_decode_cuda_sm90_heads::kSchedules;
using kda_decode_cuda_sm90_heads::Schedule;

Explanation explained(std::string_view device, const std::string& line) {
  DeviceFacts facts;
  EXPECT_TRUE(canned_facts(device, &facts).ok());
  Explanation explanation;
  const Status status = explain(line, facts, {}, &explanation);
  EXPECT_TRUE(status.ok()) << status.message();
  return explanation;
}

/// Kernel, or kernel and the name of its schedule.
std::string choice(std::string_view device, const std::string& line) {
  const Explanation explanation = explained(device, line);
  if (explanation.plan.empty()) return explanation.kernel;
  return explanation.kernel + " " + explanation.plan.substr(0, explanation.plan.find(':'));
}

struct Golden {
  const char* line;
  const char* a100;
  const char* h200;  // and h100: the same SM count
  const char* b200;  // and b300
};

constexpr Golden kGoldens[] = {
    // B of the goals at H = 12, then at H = 96.
    {"b=1 h=12", "cuda_sm80_rows", "cuda_sm90_heads c4_256", "cuda_sm90_heads c4_256"},
    {"b=4 h=12", "cuda_sm80_rows", "cuda_sm90_heads c2_256", "cuda_sm90_heads c2_256"},
    {"b=8 h=12", "cuda_sm80_rows", "cuda_sm90_heads c1_256", "cuda_sm90_heads c1_256"},
    {"b=16 h=12", "cuda_sm80_rows", "cuda_sm90_heads c2_256", "cuda_sm90_heads c4_128_six"},
    {"b=32 h=12", "cuda_sm80_rows", "cuda_sm90_heads bulk_128_evict", "cuda_sm90_heads c1_256"},
    {"b=64 h=12", "cuda_sm80_rows", "cuda_sm90_heads bulk_128_evict", "cuda_sm90_heads bulk_128_evict"},
    {"b=128 h=12", "cuda_sm80_rows", "cuda_sm90_heads c1_256_keep", "cuda_sm90_heads c1_256_keep"},
    {"b=1024 h=96", "cuda_sm80_rows", "cuda_sm90_heads c1_256_keep", "cuda_sm90_heads c1_256_keep"},
    // The limits on 132 and 148 SMs.
    {"b=1 h=36", "cuda_sm80_rows", "cuda_sm90_heads c4_256", "cuda_sm90_heads c4_256"},
    {"b=1 h=37", "cuda_sm80_rows", "cuda_sm90_heads c2_256", "cuda_sm90_heads c4_256"},
    {"b=1 h=79", "cuda_sm80_rows", "cuda_sm90_heads c2_256", "cuda_sm90_heads c2_256"},
    {"b=1 h=80", "cuda_sm80_rows", "cuda_sm90_heads c1_256", "cuda_sm90_heads c2_256"},
    {"b=1 h=132", "cuda_sm80_rows", "cuda_sm90_heads c1_256", "cuda_sm90_heads c1_256"},
    {"b=1 h=133", "cuda_sm80_rows", "cuda_sm90_heads c4_128", "cuda_sm90_heads c1_256"},
    {"b=1 h=158", "cuda_sm80_rows", "cuda_sm90_heads c4_128", "cuda_sm90_heads c4_128"},
    {"b=1 h=159", "cuda_sm80_rows", "cuda_sm90_heads c4_128_six", "cuda_sm90_heads c4_128"},
    {"b=1 h=177", "cuda_sm80_rows", "cuda_sm90_heads c2_256", "cuda_sm90_heads c4_128"},
    {"b=1 h=178", "cuda_sm80_rows", "cuda_sm90_heads c2_256", "cuda_sm90_heads c4_128_six"},
    {"b=1 h=198", "cuda_sm80_rows", "cuda_sm90_heads c2_256", "cuda_sm90_heads c2_256"},
    {"b=1 h=199", "cuda_sm80_rows", "cuda_sm90_heads bulk_128_evict", "cuda_sm90_heads c2_256"},
    {"b=1 h=221", "cuda_sm80_rows", "cuda_sm90_heads c1_256", "cuda_sm90_heads c2_256"},
    {"b=1 h=264", "cuda_sm80_rows", "cuda_sm90_heads c1_256", "cuda_sm90_heads c1_256"},
    {"b=1 h=265", "cuda_sm80_rows", "cuda_sm90_heads c4_128", "cuda_sm90_heads c1_256"},
    {"b=1 h=330", "cuda_sm80_rows", "cuda_sm90_heads c4_128", "cuda_sm90_heads c4_128"},
    {"b=1 h=331", "cuda_sm80_rows", "cuda_sm90_heads c1_256", "cuda_sm90_heads c4_128"},
    {"b=1 h=353", "cuda_sm80_rows", "cuda_sm90_heads bulk_128_evict", "cuda_sm90_heads c4_128"},
    {"b=1 h=1188", "cuda_sm80_rows", "cuda_sm90_heads bulk_128_evict", "cuda_sm90_heads bulk_128_evict"},
    {"b=1 h=1189", "cuda_sm80_rows", "cuda_sm90_heads c1_256_keep", "cuda_sm90_heads bulk_128_evict"},
    // bf16 state.
    {"b=1 h=12 state=bf16", "cuda_sm80_rows", "cuda_sm90_heads c2_256", "cuda_sm90_heads c2_256"},
    {"b=8 h=12 state=bf16", "cuda_sm80_rows", "cuda_sm90_heads c1_256", "cuda_sm90_heads c1_256"},
    {"b=16 h=12 state=bf16", "cuda_sm80_rows", "cuda_sm90_heads c1_256", "cuda_sm90_heads c1_256"},
    {"b=24 h=12 state=bf16", "cuda_sm80_rows", "cuda_sm90_heads bulk_128_evict", "cuda_sm90_heads c1_256"},
    {"b=40 h=12 state=bf16", "cuda_sm80_rows", "cuda_sm90_heads bulk_128", "cuda_sm90_heads bulk_128"},
    {"b=48 h=12 state=bf16", "cuda_sm80_rows", "cuda_sm90_heads c1_128", "cuda_sm90_heads bulk_128"},
    {"b=64 h=12 state=bf16", "cuda_sm80_rows", "cuda_sm90_heads bulk_128_evict", "cuda_sm90_heads bulk_128_evict"},
    {"b=256 h=12 state=bf16", "cuda_sm80_rows", "cuda_sm90_heads c1_128_keep", "cuda_sm90_heads c1_128_keep"},
    // What the native kernel does not take.
    {"b=4 h=12 align=4", "cuda_sm80_rows", "cuda_sm80_rows", "cuda_sm80_rows"},
    {"b=4 h=12 state_align=8", "cuda_sm80_rows", "cuda_sm80_rows", "cuda_sm80_rows"},
    {"b=4 h=12 align=8", "cuda_sm80_rows", "cuda_sm90_heads c2_256", "cuda_sm90_heads c2_256"},
};

TEST(KdaDecodeDispatch, Goldens) {
  for (const Golden& golden : kGoldens) {
    const std::string line = std::string("kda_decode ") + golden.line;
    EXPECT_EQ(choice("a100", line), golden.a100) << line;
    EXPECT_EQ(choice("h100", line), golden.h200) << line;
    EXPECT_EQ(choice("h200", line), golden.h200) << line;
    EXPECT_EQ(choice("b200", line), golden.b200) << line;
    EXPECT_EQ(choice("b300", line), golden.b200) << line;
  }
}

// Every head count of a model, whole or sharded, whatever the call key, with slices of a projection buffer that ends
// with beta (rows of 5 * 128 * H + H elements).
TEST(KdaDecodeDispatch, EveryHeadCountIsNative) {
  for (const std::string_view device : {"h100", "h200", "b200", "b300"}) {
    for (const int64_t h : {3, 6, 12, 24, 32, 48, 64, 96}) {
      for (const std::string_view key :
           {"", " state=bf16", " norm=0", " bias=1", " gate=softplus", " layout=ds null=-1 state=bf16 bias=1"}) {
        for (const int64_t b : {1, 7, 64, 1024}) {
          const std::string line = fmt::format("kda_decode b={} h={}{}", b, h, key);
          EXPECT_EQ(explained(device, line).kernel, "cuda_sm90_heads") << line;
        }
      }
      if (h % 4 != 0) continue;
      const int64_t step = 5 * 128 * h + h;
      const std::string sliced =
          fmt::format("kda_decode b=4 h={} x_stride={} gate_stride={} beta_stride={} output_gate_stride={} align=8", h,
                      step, step, step, step);
      EXPECT_EQ(explained(device, sliced).kernel, "cuda_sm90_heads") << sliced;
    }
  }
}

TEST(KdaDecodeDispatch, RefusalsSayWhatIsNeeded) {
  expect_refusals("h200", {{"kda_decode b=4 h=12 align=4", "align: has 4, needs at least 8"},
                           {"kda_decode b=4 h=12 state_align=8", "state_align: has 8, needs 16"},
                           {"kda_decode b=4 h=12 dtype=f32", "dtype: has f32, needs bf16"},
                           {"kda_decode b=500000 h=96", "b * h * h: has 4608000000, needs less than 4294967296"},
                           {"kda_decode b=1 h=131073", "h: has 131073, needs at most 131072"}});
}

TEST(KdaDecodeDispatch, EveryScheduleIsChosenSomewhere) {
  for (const DType state : {DType::f32, DType::bf16}) {
    std::set<std::string_view> chosen;
    for (int64_t items = 1; items < 4000; ++items) {
      for (const bool dependent : {true, false}) {
        const Schedule& schedule = choose_schedule(items, state, 132, dependent);
        EXPECT_EQ(schedule.state, state);
        chosen.insert(schedule.name);
      }
    }
    for (const Schedule& schedule : kSchedules) {
      if (schedule.state != state) continue;
      EXPECT_EQ(chosen.count(schedule.name), 1U) << schedule.name;
    }
  }
}

// Launches that do not overlap have limits of their own.
TEST(KdaDecodeDispatch, WithoutDependentLaunches) {
  const std::pair<int64_t, const char*> floats[] = {
      {12, "c4_256"},           {88, "c4_256"},          {89, "c1_256"},  {132, "c1_256"},
      {133, "c4_128_six"},      {176, "c4_128_six"},     {177, "c2_256"}, {198, "c2_256"},
      {199, "c1_256"},          {265, "bulk_128_evict"}, {397, "c1_256"}, {661, "bulk_128_evict"},
      {1188, "bulk_128_evict"}, {1189, "c1_256_keep"}};
  for (const auto& [items, name] : floats)
    EXPECT_EQ(choose_schedule(items, DType::f32, 132, false).name, name) << items;
  const std::pair<int64_t, const char*> halves[] = {{66, "c2_256"},    {67, "c1_256"},  {133, "c2_256"},
                                                    {199, "c1_256"},   {265, "c1_128"}, {397, "bulk_128_evict"},
                                                    {1717, "bulk_128"}};
  for (const auto& [items, name] : halves)
    EXPECT_EQ(choose_schedule(items, DType::bf16, 132, false).name, name) << items;
}

// What a form promises of blocks per SM fits: threads, and shared memory with the 1 KiB that the driver keeps of every
// block. Registers: tests/resources/kda_decode.txt.
TEST(KdaDecodeDispatch, FormsFitTheirBlocks) {
  for (const Schedule& schedule : kSchedules) {
    const auto& form = schedule.form();
    const int64_t bytes =
        kda_decode_cuda_sm90_heads::shared_bytes(form, static_cast<int64_t>(size_of(schedule.state))) + 1024;
    EXPECT_LE(form.min_blocks * form.threads, 2048) << schedule.name;
    EXPECT_LE(form.min_blocks * bytes, 228 * 1024) << schedule.name;
  }
}

TEST(KdaDecodeDispatch, ThePlanReadsAsASentence) {
  EXPECT_EQ(explained("h200", "kda_decode b=1 h=12").plan,
            "c4_256: a cluster of 4 blocks of 256 threads per (row, head), state in registers, evict-first");
  EXPECT_EQ(explained("h200", "kda_decode b=1024 h=96").plan,
            "c1_256_keep: a block of 256 threads per (row, head), state in registers");
  EXPECT_EQ(explained("h200", "kda_decode b=32 h=12").plan,
            "bulk_128_evict: a block of 128 threads per (row, head), state in shared memory, evict-first");
}

}  // namespace
}  // namespace silt
