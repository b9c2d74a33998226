// Facts without a copy: what a call looks up.
#pragma once

#include "silt/device.hpp"

namespace silt {

/// Points at facts that live as long as the process; the error of device_facts otherwise.
Status facts_of(Device device, const DeviceFacts** facts);

}  // namespace silt
