// What silt-bench asks of an AMD device: launches timed by events, one by one on the default stream, and a copy. There
// are no graphs and no byte movers for these devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "silt/status.hpp"
#include "silt/tensor.hpp"

#include "bench/gpu_protocol.hpp"

namespace silt::bench::hip_gpu {

std::string driver();  ///< "HIP 6.3.42134 (libamdhip64.so.6)"
Status free_memory(Device device, int64_t* bytes);
/// All launches issued from the host between two events; microseconds per launch.
Status sample_eager(Device device, int64_t launches, gpu::LaunchSeries launch, double* us);
/// Asynchronous, on the default stream.
Status launch_copy(void* target, const void* source, size_t bytes, Device device);

}  // namespace silt::bench::hip_gpu
