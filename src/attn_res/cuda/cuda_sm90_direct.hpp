// The promise of cuda_sm90_direct: one token per cluster of blocks, rows held in registers. Plain C++: the choice for a
// GPU can be explained where there is none.
#pragma once

#include "attn_res/list.hpp"

namespace silt::attn_res_cuda_sm90_direct {

/// A row chunk is 16 bytes, one per lane and row: a warp owns the same 256 columns in every form, so that its partial
/// sums have the same bits.
constexpr int kChunkColumns = 8;
constexpr int kWarpColumns = 32 * kChunkColumns;
/// Partial sums of warps are added in groups of four, the groups one after the other, whatever block they ran in. A
/// narrow block is one group: it adds its four sums itself and exchanges one per statistic.
constexpr int kGroupWarps = 4;
constexpr int kGroupColumns = kGroupWarps * kWarpColumns;
constexpr int kMostGroups = 8;  ///< blocks of a cluster that every GPU with clusters can run
constexpr int kMostColumns = kMostGroups * kGroupColumns;
constexpr int kMostWarps = kMostGroups * kGroupWarps;
/// A wide cluster is two blocks of up to 14 warps, which is 7168 columns: two such blocks fit one SM at 72 registers.
/// Sixteen warps would leave one block per SM.
constexpr int kWideBlocks = 2;
constexpr int kMostWideWarps = 14;
/// Rows of the bank that fit registers next to the prefix: 9 rows of 4 registers each, of 72.
constexpr int kMostSources = 8;

enum class Form : int32_t {
  narrow,  ///< one block of 128 threads per 1024 columns: least latency, most blocks in flight
  wide,    ///< two blocks: fewest blocks to start and finish, best where memory is the limit
};

struct Plan {
  Form form = Form::narrow;
  bool stream = false;  ///< rows with the streaming hint (gpu/memory.hpp)
};

/// Blocks of a cluster and threads of a block.
constexpr int blocks_per_token(const Plan& plan, int64_t d) {
  if (plan.form == Form::wide) return kWideBlocks;
  return static_cast<int>((d + kGroupColumns - 1) / kGroupColumns);
}
constexpr int threads_per_block(const Plan& plan, int64_t d) {
  if (plan.form == Form::narrow) return 32 * kGroupWarps;
  const auto warps = static_cast<int>((d + kWarpColumns - 1) / kWarpColumns);
  return 32 * ((warps + kWideBlocks - 1) / kWideBlocks);
}

constexpr bool fits(const Plan& plan, int64_t d) {
  return plan.form == Form::narrow || (d > kWarpColumns && threads_per_block(plan, d) <= 32 * kMostWideWarps);
}

/// The fastest form by what was measured at 7168 columns (docs/ladder/attn_res_cuda.md); other sizes go by their bytes.
constexpr Plan choose_plan(const AttnResProblem& problem, Pdl pdl) {
  const int64_t t = problem.t * problem.d / 7168;
  const bool late = pdl == Pdl::late;
  int64_t stream_to = 512;  // largest t with the streaming hint
  int64_t wide_from = 2048;
  bool wide = false;
  if (problem.n == 0) {
    wide_from = 132;
  } else if (problem.n <= 2) {
    wide_from = late ? 100 : 32;
  } else if (problem.n <= 5) {
    stream_to = 32;
    wide_from = late ? 97 : 384;
  } else if (late) {
    wide_from = 1024;
    // Fewer and larger blocks leave room for the next launch to start early.
    wide = t >= 48 && t <= 132;
  }
  Plan plan{wide || t >= wide_from ? Form::wide : Form::narrow, t <= stream_to};
  // Up to 4096 columns a narrow cluster has at most four blocks, and wide ones gain nothing.
  if (problem.d <= 4096 || !fits(plan, problem.d)) plan.form = Form::narrow;
  return plan;
}

/// sm_90 and the family of sm_100.
constexpr bool has_code_for(int32_t arch) { return arch == 90 || arch == 100 || arch == 103; }

constexpr Reason accepts(const AttnResProblem& problem, const DeviceFacts& facts) {
  if (!has_code_for(facts.arch_number)) return refuse("arch", facts.arch, "sm_90, sm_100 or sm_103");
  if (problem.dtype != DType::bf16) return refuse("dtype", to_string(problem.dtype), "bf16");
  if (problem.n > kMostSources) return refuse("num_blocks", problem.n, "at most 8");
  if (problem.d % kWarpColumns != 0) return refuse("hidden size", problem.d, "a multiple of 256");
  if (problem.d > kMostColumns) return refuse("hidden size", problem.d, "at most 8192");
  if (problem.align < 16) return refuse("alignment", problem.align, "16 bytes of every row and weight");
  if (problem.t > INT32_MAX) return refuse("tokens", problem.t, "at most 2147483647");
  return accept();
}

/// "7 x 128 threads a token, streaming loads; late: 2 x 448 threads a token"
std::string describe(const AttnResProblem& problem, const DeviceFacts& facts);

Status launch(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch);
/// The same with a form of the caller's choice (one that fits); tests compare them, tuning times them.
Status launch_plan(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch, const Plan& plan);

}  // namespace silt::attn_res_cuda_sm90_direct
