// The promise of cpu_avx2_rows, cpu_avx512_rows, cpu_avx512bf16_rows and cpu_neon_rows: every checked problem on a CPU
// with that instruction set. One source (simd_rows.inl.hpp), one entry of the list per instruction set; all of them
// give the same bits wherever workers flush denormals.
#pragma once

#include "attn_res/list.hpp"
#include "dispatch/cpu_feature.hpp"

namespace silt::attn_res_cpu_simd_rows {

/// Columns whose sums are formed apart and then added in order; threads share a row by these tiles. Smaller tiles cost
/// time between their loops (512: 1.03x), larger ones leave fewer threads something to do with one token.
constexpr int64_t kTileColumns = 1024;

template <CpuFeature kFeature>
Reason accepts(const AttnResProblem&, const DeviceFacts& facts) {
  return needs_cpu_feature(facts, kFeature);
}

Status launch_avx2(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch);
Status launch_avx512(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch);
Status launch_avx512bf16(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch);
Status launch_neon(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch);

}  // namespace silt::attn_res_cpu_simd_rows
