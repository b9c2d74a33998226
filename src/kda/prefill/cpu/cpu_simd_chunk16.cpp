// What explain says of the chunked kernels.
#include "kda/prefill/cpu/cpu_simd_chunk16.hpp"

#include <fmt/format.h>

namespace silt::kda_prefill_cpu_simd_chunk16 {

std::string plan(const KdaPrefillProblem&, const DeviceFacts&) {
  return fmt::format("chunks of {} tokens; what is left of a sequence token by token", kChunk);
}

}  // namespace silt::kda_prefill_cpu_simd_chunk16
