// Which problems cuda_sm90_heads takes, and with which schedule.
#include "kda/decode/cuda/cuda_sm90_heads.hpp"

#include <fmt/format.h>

#include "kda/decode/cuda/params.hpp"

namespace silt::kda_decode_cuda_sm90_heads {
namespace {

/// Up to `items_per_sms.first` items on `items_per_sms.second` SMs.
struct Limit {
  int64_t items;
  int64_t processors;
  std::string_view schedule;
};

// Measured on 132 SMs (docs/results/h200/tune_kda_decode.csv); the fractions are what the limits mean there. A schedule
// is the best one from where the one before it stops fitting into a wave (capacity = SMs * blocks per SM / cluster) or
// where the latency of its smaller share of the state no longer pays for its hops. Dependent launches overlap, so that
// what fits beside its predecessor wins there and may lose without.
constexpr Limit kDependentF32[] = {
    {3, 11, "c4_256"},         // 36 of 132
    {3, 5, "c2_256"},          // 79
    {1, 1, "c1_256"},          // 132: one block per SM and no hop
    {6, 5, "c4_128"},          // 158
    {4, 3, "c4_128_six"},      // 176
    {3, 2, "c2_256"},          // 198: its capacity
    {5, 3, "bulk_128_evict"},  // 220
    {2, 1, "c1_256"},          // 264: its capacity
    {5, 2, "c4_128"},          // 330: twice its capacity
    {8, 3, "c1_256"},          // 352
    {9, 1, "bulk_128_evict"},  // 1188: above, the hint costs more DRAM efficiency than it saves
};
constexpr Limit kAloneF32[] = {
    {2, 3, "c4_256"},          // 88 of 132
    {1, 1, "c1_256"},          // 132: one block per SM
    {4, 3, "c4_128_six"},      // 176
    {3, 2, "c2_256"},          // 198: its capacity
    {2, 1, "c1_256"},          // 264
    {3, 1, "bulk_128_evict"},  // 396: its capacity
    {5, 1, "c1_256"},          // 660
    {9, 1, "bulk_128_evict"},  // 1188
};
constexpr Limit kDependentBf16[] = {
    {1, 2, "c2_256"},           // 66 of 132
    {2, 1, "c1_256"},           // 264: its capacity
    {7, 3, "bulk_128_evict"},   // 308
    {3, 1, "c1_128"},           // 396: its capacity
    {4, 1, "bulk_128"},         // 528: its capacity
    {9, 2, "c1_128"},           // 594
    {13, 1, "bulk_128_evict"},  // 1716
};
constexpr Limit kAloneBf16[] = {
    {1, 2, "c2_256"},           // 66 of 132
    {1, 1, "c1_256"},           // 132
    {3, 2, "c2_256"},           // 198
    {2, 1, "c1_256"},           // 264
    {3, 1, "c1_128"},           // 396
    {13, 1, "bulk_128_evict"},  // 1716
};

std::span<const Limit> limits_of(DType state, bool dependent) {
  if (state == DType::f32) return dependent ? std::span<const Limit>(kDependentF32) : kAloneF32;
  return dependent ? std::span<const Limit>(kDependentBf16) : kAloneBf16;
}

const Schedule& find(std::string_view name, DType state) {
  for (const Schedule& schedule : kSchedules) {
    if (schedule.name == name && schedule.state == state) return schedule;
  }
  return kSchedules.front();  // not reached: test_kda_decode_cuda walks both tables
}

}  // namespace

const Schedule& choose_schedule(int64_t items, DType state, int64_t processors, bool dependent) {
  for (const Limit& limit : limits_of(state, dependent)) {
    if (items * limit.processors <= limit.items * processors) return find(limit.schedule, state);
  }
  if (state == DType::f32) return find("c1_256_keep", state);
  return find(dependent ? "c1_128_keep" : "bulk_128", state);
}

Reason accepts(const KdaDecodeProblem& problem, const DeviceFacts& facts) {
  const bool hopper = facts.arch_number == 90;
  const bool blackwell = facts.arch_number >= 100 && facts.arch_number < 110;
  if (!hopper && !blackwell) return refuse("arch", facts.arch, "sm_90, or sm_100 to sm_109");
  if (problem.dtype != DType::bf16) return refuse("dtype", to_string(problem.dtype), "bf16");
  if (problem.h > kda_decode_cuda::kMaxHeads) return refuse("h", problem.h, "at most 131072");
  const int64_t items = problem.b * problem.h;
  // A multiply-high with ceil(2^32 / H) divides items by H exactly below 2^32 / H.
  if (items * problem.h >= int64_t{1} << 32) return refuse("b * h * h", items * problem.h, "less than 4294967296");
  if (problem.align < 8) return refuse("align", problem.align, "at least 8");
  if (problem.state_align < 16) return refuse("state_align", problem.state_align, "16");
  return accept();
}

std::string plan(const KdaDecodeProblem& problem, const DeviceFacts& facts) {
  const Schedule& s = choose_schedule(problem.b * problem.h, problem.state, facts.processors, true);
  return fmt::format("{}: {} of {} threads per (row, head), state in {}{}", s.name,
                     s.form().cluster == 1 ? "a block" : fmt::format("a cluster of {} blocks", s.form().cluster),
                     s.form().threads, s.form().bulk ? "shared memory" : "registers", s.evict ? ", evict-first" : "");
}

}  // namespace silt::kda_decode_cuda_sm90_heads
