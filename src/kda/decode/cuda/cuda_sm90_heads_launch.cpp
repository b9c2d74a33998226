// Launch of cuda_sm90_heads.
#include <algorithm>

#include "core/status.hpp"
#include "device/facts.hpp"
#include "gpu/launch.hpp"
#include "kda/decode/cuda/cuda_sm90_heads.hpp"
#include "kda/decode/cuda/instances.hpp"
#include "kda/decode/cuda/make_params.hpp"

namespace silt::kda_decode_cuda_sm90_heads {
namespace {

constexpr gpu::KernelName kName{"kda_decode", "cuda_sm90_heads"};
gpu::DeviceSetup setups[2 * kFormCount];

}  // namespace

Status launch_schedule(const Schedule& schedule, const KdaDecodeProblem& problem, const KdaDecodeArgs& args,
                       const Launch& launch) {
  const auto state_bytes = static_cast<int>(size_of(schedule.state));
  kda_decode_cuda::Kernel kernel = kda_decode_cuda::sm90_heads_kernel(state_bytes, schedule.form_id);
  if (kernel == nullptr || schedule.state != problem.state) {
    return invalid("kda_decode: schedule: has {} for {}, needs one for {}", schedule.name, to_string(schedule.state),
                   to_string(problem.state));
  }
  const Form& form = schedule.form();
  gpu::LaunchShape shape;
  shape.grid = problem.b * problem.h;
  shape.block = form.threads;
  shape.cluster = form.cluster;
  shape.shared_bytes =
      static_cast<size_t>(std::max<int64_t>(shared_bytes(form, state_bytes), schedule.least_shared_bytes));
  shape.dependent = launch.pdl != Pdl::off;
  if (form.bulk) {
    const int index = 2 * static_cast<int>(schedule.form_id) + (schedule.state == DType::bf16 ? 1 : 0);
    SILT_TRY(setups[index].allow_shared(kName, reinterpret_cast<const void*>(kernel), args.x.device.index,
                                        shape.shared_bytes));
  }
  kda_decode_cuda::Params params = kda_decode_cuda::make_params(problem, args);
  params.evict_first = schedule.evict;
  params.prefetch = schedule.prefetch && shape.dependent;
  return gpu::launch(kName, kernel, shape, args.x.device, launch, params);
}

Status launch(const KdaDecodeProblem& problem, const KdaDecodeArgs& args, const Launch& launch) {
  const DeviceFacts* facts = nullptr;
  SILT_TRY(facts_of(args.x.device, &facts));
  const bool dependent = launch.pdl != Pdl::off;
  return launch_schedule(choose_schedule(problem.b * problem.h, problem.state, facts->processors, dependent), problem,
                         args, launch);
}

}  // namespace silt::kda_decode_cuda_sm90_heads
