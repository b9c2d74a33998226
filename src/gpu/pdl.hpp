// Programmatic dependent launch (sm_90 and later): a kernel that was launched with the attribute may start while its
// predecessor still runs. Contract of each operator: what is touched before the wait.
#pragma once

#include "gpu/config.hpp"

namespace silt::gpu {

/// Blocks until every kernel before this one in the stream has finished and its writes are visible.
SILT_DEVICE void dependency_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

/// The same, and not before these addresses (not all null) are known: their arithmetic, with the first reads of the
/// kernel's arguments, then passes while the predecessor still runs. Left alone ptxas puts the wait first.
template <class... T>
SILT_DEVICE void dependency_wait_after(const T*... addresses) {
  const uint64_t known = (reinterpret_cast<uint64_t>(addresses) | ...);
  asm volatile("{ .reg .pred known; setp.ne.u64 known, %0, 0; @known griddepcontrol.wait; }" ::"l"(known) : "memory");
}

/// Lets the next kernel start once every block of this one has come here (or ended).
SILT_DEVICE void trigger_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

}  // namespace silt::gpu
