// Programmatic dependent launch (sm_90 and later): a kernel that was launched with the attribute may start while its
// predecessor still runs. Contract of each operator: what is touched before the wait.
#pragma once

#include "gpu/config.hpp"

namespace silt::gpu {

/// Blocks until every kernel before this one in the stream has finished and its writes are visible.
SILT_DEVICE void dependency_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

/// Lets the next kernel start once every block of this one has come here (or ended).
SILT_DEVICE void trigger_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

}  // namespace silt::gpu
