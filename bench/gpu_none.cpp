// The GPU side of a silt-bench without CUDA: every call says so.
#include "bench/gpu_protocol.hpp"
#include "core/status.hpp"

namespace silt::bench::gpu {
namespace {
Status missing() { return failed(StatusCode::device_error, "cuda: not built (configure with SILT_CUDA=ON)"); }
}  // namespace

Versions versions() { return {"none", "none"}; }
Status free_memory(Device, int64_t*) { return missing(); }
Status fill_uniform(Device, void*, DType, int64_t, float, float, uint64_t) { return missing(); }
Status Series::capture(Device, int64_t, LaunchSeries, std::unique_ptr<Series>*) { return missing(); }
Status sample_eager(Device, int64_t, LaunchSeries, double*) { return missing(); }
Status launch_empty(int, Device, const Launch&) { return missing(); }
Status launch_copy(void*, const void*, size_t, Device, const Launch&) { return missing(); }
Status launch_read(const void*, size_t, Device, const Launch&) { return missing(); }
std::string row_mover_name(int) { return {}; }
Status launch_row_mover(const RowMover&, int, Device, const Launch&) { return missing(); }
std::string sweep_mover_name(int) { return {}; }
Status launch_sweep_mover(const SweepMover&, int, Device, const Launch&) { return missing(); }
std::string slot_mover_name(int) { return {}; }
int64_t slot_mover_piece(int) { return 1; }
Status launch_slot_mover(const SlotMover&, int, Device, const Launch&) { return missing(); }

}  // namespace silt::bench::gpu
