// The floor of a launch, for the tuning program.
#pragma once

#include "silt/choose.hpp"
#include "silt/status.hpp"
#include "silt/tensor.hpp"

namespace silt {

Status launch_floor(int64_t blocks, Device device, const Launch& launch);

}  // namespace silt
