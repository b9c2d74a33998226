// The promise of cpu_avx2_rows, cpu_avx512_rows, cpu_avx512bf16_rows and cpu_neon_rows: every checked problem on a CPU
// with that instruction set. One source (simd_rows.inl.hpp), one entry of the list per instruction set; all of them
// give the same bits wherever workers flush denormals.
#pragma once

#include "attn_res/list.hpp"
#include "dispatch/cpu_feature.hpp"

namespace silt::attn_res_cpu_simd_rows {

/// Columns whose sums are formed apart and then added in order: what threads share a row by, and what the stages of a
/// token take turns at. 512 bf16 columns are 1 KiB of a row.
constexpr int64_t kTileColumns = 512;

template <CpuFeature kFeature>
Reason accepts(const AttnResProblem&, const DeviceFacts& facts) {
  return needs_cpu_feature(facts, kFeature);
}

Status launch_avx2(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch);
Status launch_avx512(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch);
Status launch_avx512bf16(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch);
Status launch_neon(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch);

}  // namespace silt::attn_res_cpu_simd_rows
