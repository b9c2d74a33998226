// A kernel that does nothing: the floor of a launch, with and without the dependent-launch attribute.
#include "attn_res/bench/floor.hpp"
#include "gpu/launch.hpp"
#include "gpu/pdl.hpp"

namespace silt {
namespace {

__global__ void floor_kernel(bool dependent) {
  if (dependent) {
    gpu::dependency_wait();
    gpu::trigger_dependents();
  }
}

}  // namespace

Status launch_floor(int64_t blocks, Device device, const Launch& launch) {
  gpu::LaunchShape shape;
  shape.grid = blocks;
  shape.block = 128;
  shape.dependent = launch.pdl != Pdl::off;
  return gpu::launch({"attn_res", "floor"}, floor_kernel, shape, device, launch, shape.dependent);
}

}  // namespace silt
