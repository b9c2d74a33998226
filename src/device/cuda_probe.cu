// A kernel of the portable code, so that the backend can ask whether this library holds code for a device.
#include "device/cuda_probe.hpp"

namespace silt::backend {
namespace {
__global__ void probe() {}
}  // namespace

const void* cuda_probe() { return reinterpret_cast<const void*>(&probe); }

}  // namespace silt::backend
