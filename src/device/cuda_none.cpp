// The CUDA backend of a build without CUDA.
#include "device/backend.hpp"

namespace silt::backend {
namespace {

const std::string& missing() {
  static const std::string reason = "not built (configure with SILT_CUDA=ON; needs nvcc 13)";
  return reason;
}
int count() { return 0; }
std::string about() { return {}; }

constexpr Backend kNone{"cuda", missing, count, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, about};

}  // namespace

const Backend& cuda_backend() { return kNone; }

}  // namespace silt::backend
