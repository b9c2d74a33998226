#pragma once

namespace silt::backend {

/// The host handle of an empty kernel that is built like every portable kernel.
const void* cuda_probe();

}  // namespace silt::backend
