// The CUDA backend of a build without CUDA.
#include "core/status.hpp"
#include "device/backend.hpp"

namespace silt::backend {
namespace {
Status missing() { return {StatusCode::device_error, "cuda: " + cuda_missing()}; }
}  // namespace

const std::string& cuda_missing() {
  static const std::string reason = "not built (configure with SILT_CUDA=ON; needs nvcc 13)";
  return reason;
}
int cuda_device_count() { return 0; }
Status cuda_facts(int, DeviceFacts*) { return missing(); }
Status cuda_allocate(int, size_t, void**) { return missing(); }
void cuda_release(int, void*) {}
Status cuda_copy(int, void*, const void*, size_t, Copy) { return missing(); }
Status cuda_synchronize(int, void*) { return missing(); }

}  // namespace silt::backend
