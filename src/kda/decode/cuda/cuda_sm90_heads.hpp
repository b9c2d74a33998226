// The promise of cuda_sm90_heads: sizes, schedules, predicate. Plain C++, so that a build without CUDA can explain and
// test the choice for any device.
#pragma once

#include <array>
#include <string>

#include "kda/decode/cuda/forms.hpp"
#include "kda/decode/list.hpp"

namespace silt::kda_decode_cuda_sm90_heads {

/// A form with its run-time settings.
struct Schedule {
  std::string_view name;  ///< of the plan; `c` is the cluster size, the number the threads of a block
  DType state = DType::f32;
  FormId form_id = FormId::c4_256;
  bool evict = false;          ///< evict-first hint on the state
  int least_shared_bytes = 0;  ///< asked for where fewer blocks per SM are faster than fit
  bool prefetch = true;        ///< dependent: what is read behind the wait is asked for in L2 before it

  [[nodiscard]] constexpr const Form& form() const { return form_of(form_id); }
};

/// Four 32 KiB blocks in flight per SM beat six where DRAM is the limit.
inline constexpr int kFourPerSm = 50'000;

inline constexpr std::array kSchedules = {
    Schedule{"c4_256", DType::f32, FormId::c4_256, true, 0},
    Schedule{"c2_256", DType::f32, FormId::c2_256, true, 0},
    Schedule{"c4_128", DType::f32, FormId::c4_128, true, 0},
    Schedule{"c4_128_six", DType::f32, FormId::c4_128_six, true, 0},
    Schedule{"c1_256", DType::f32, FormId::c1_256, true, 0},
    Schedule{"c1_256_keep", DType::f32, FormId::c1_256_keep, false, 0},
    Schedule{"bulk_128_evict", DType::f32, FormId::bulk_128, true, 0},
    Schedule{"c2_256", DType::bf16, FormId::c2_256, true, 0},
    Schedule{"c1_256", DType::bf16, FormId::c1_256, true, 0},
    Schedule{"c1_128", DType::bf16, FormId::c1_128, true, 0},
    Schedule{"bulk_128_evict", DType::bf16, FormId::bulk_128_half, true, 0},
    Schedule{"c1_128_keep", DType::bf16, FormId::c1_128_keep, false, 0},
    Schedule{"bulk_128", DType::bf16, FormId::bulk_128_half, false, kFourPerSm},
};

/// Pure: a function of B * H, the state type, the SM count and whether the launch is a dependent one.
const Schedule& choose_schedule(int64_t items, DType state, int64_t processors, bool dependent);

Reason accepts(const KdaDecodeProblem& problem, const DeviceFacts& facts);
/// That of a dependent launch, which is the default.
std::string plan(const KdaDecodeProblem& problem, const DeviceFacts& facts);
Status launch(const KdaDecodeProblem& problem, const KdaDecodeArgs& args, const Launch& launch);

/// For tests and tuning: a schedule by hand. Its state type must be the problem's.
Status launch_schedule(const Schedule& schedule, const KdaDecodeProblem& problem, const KdaDecodeArgs& args,
                       const Launch& launch);

}  // namespace silt::kda_decode_cuda_sm90_heads
