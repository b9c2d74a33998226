// What the AMD kernels with a workgroup per head of a row or sequence, and its state in registers, take.
#pragma once

#include "silt/device.hpp"

#include "dispatch/kernel.hpp"
#include "gpu/hip/launch.hpp"

namespace silt::kda_hip {

/// Four waves: q, k, v and the gates; each then has 32 rows of the state.
constexpr int kThreadsPerHead = 256;
/// Offsets inside a slot (H * 128 * 128 of state, 9 * 128 * H of history) fit 32 bits.
constexpr int64_t kMaxHeads = 1 << 17;

/// bf16 gates, on a device of exactly that architecture. `groups` of `groups_name` are heads * rows.
constexpr Reason accepts_heads(const DeviceFacts& facts, int32_t arch, std::string_view isa, DType dtype, int64_t heads,
                               std::string_view groups_name, int64_t groups) {
  if (facts.arch_number != arch) return refuse("arch", facts.arch, isa);
  if (dtype != DType::bf16) return refuse("dtype", to_string(dtype), "bf16");
  if (heads > kMaxHeads) return refuse("h", heads, "at most 131072");
  if (groups > hip::most_groups(kThreadsPerHead)) return refuse(groups_name, groups, "at most 16777215");
  return accept();
}

}  // namespace silt::kda_hip
