// The promise of cuda_sm90_direct: one token per block or cluster of blocks, rows held in registers. Plain C++: the
// choice for a GPU can be explained where there is none.
#pragma once

#include "attn_res/list.hpp"

namespace silt::attn_res_cuda_sm90_direct {

/// A lane reads a row in pieces of 16 bytes. 256 columns are a leaf: its sum is made in one warp, in the same order in
/// every form. Two leaves are a pair, and a row's total is that of the even pairs plus that of the odd pairs.
constexpr int kPieceColumns = 8;
constexpr int kLeafColumns = 256;
constexpr int kPairColumns = 2 * kLeafColumns;
/// Columns of a block of a narrow form: two pairs.
constexpr int kBlockColumns = 2 * kPairColumns;
constexpr int kMostBlocks = 8;  ///< of a cluster, on every GPU with clusters
constexpr int kMostColumns = kMostBlocks * kBlockColumns;
constexpr int kMostPairs = kMostColumns / kPairColumns;
/// Rows of the bank that fit registers next to the prefix.
constexpr int kMostSources = 8;

enum class Form : int32_t {
  narrow,  ///< one block of 4 warps per 1024 columns, a lane has one piece of a row: least latency
  lean,    ///< the same columns in 2 warps, two pieces a lane: half of what is done once per warp
  two,     ///< two blocks of up to 7 warps, two pieces a lane: few messages, most bytes in flight
  one,     ///< one block of up to 14 warps, two pieces a lane: no cluster
};

/// 16-byte pieces of a row that a lane holds.
constexpr int pieces(Form form) { return form == Form::narrow ? 1 : 2; }
/// Warps of 7168 columns: two and one are cut for them, so that no register is left over at that size.
constexpr int most_warps(Form form) {
  return form == Form::narrow ? 4 : form == Form::lean ? 2 : form == Form::two ? 7 : 14;
}

struct Plan {
  Form form = Form::narrow;
  bool stream = false;  ///< rows with the streaming hint (gpu/memory.hpp)
  /// Rows that may not be read before the dependency wait are asked for in L2 there.
  bool prefetch = false;
  /// Nothing is done before the dependency wait, and dependents are triggered last; else right after it.
  bool in_turn = false;
};

/// Blocks of a cluster (one: there is none) and threads of a block.
constexpr int blocks_per_token(const Plan& plan, int64_t d) {
  if (plan.form == Form::one) return 1;
  if (plan.form == Form::two) return 2;
  return static_cast<int>((d + kBlockColumns - 1) / kBlockColumns);
}
constexpr int threads_per_block(const Plan& plan, int64_t d) {
  const auto pairs = static_cast<int>((d + kPairColumns - 1) / kPairColumns);
  if (plan.form == Form::one) return 32 * pairs;
  if (plan.form == Form::two) return 32 * ((pairs + 1) / 2);
  return 32 * most_warps(plan.form);
}

/// What is built. Lean was thought of for many rows, and gains nothing from a plain load at the sizes it is meant for;
/// a block of its own gains from the hint with few rows only.
constexpr bool has_code(Form form, bool stream, int64_t n) {
  if (form == Form::lean) return stream && n >= 3;
  if (form == Form::one) return !stream || n <= 2;
  return true;
}

/// Clusters have at least two blocks, and both of form two have at least two warps.
constexpr bool fits(const Plan& plan, int64_t n, int64_t d) {
  if (!has_code(plan.form, plan.stream, n) || (plan.prefetch && plan.in_turn)) return false;
  if (plan.form == Form::one) return d <= 14 * kPairColumns;
  return d > kBlockColumns && (plan.form != Form::two || d <= 14 * kPairColumns);
}

/// The fastest form by what was measured at 7168 columns (docs/ladder/attn_res_cuda.md); other sizes go by their bytes.
constexpr Plan choose_plan(const AttnResProblem& problem, Pdl pdl) {
  const int64_t t = problem.t * problem.d / 7168;
  const bool late = pdl == Pdl::late;
  Plan plan;
  if (problem.n <= 2) {
    plan.stream = t <= 512;
    plan.prefetch = t <= (late && problem.n > 0 ? 32 : 160);
    if (t > 160) plan.form = problem.n == 1 ? Form::one : Form::two;
  } else if (problem.n <= 5) {
    plan.stream = t <= (late ? 100 : 48);
    plan.prefetch = t <= (late ? 32 : 320);
    if (t > (late ? 200 : 320)) plan.form = Form::two;
  } else {
    plan.stream = t <= 512;
    plan.prefetch = t <= (late ? 32 : 100);
    // Fewer and larger blocks leave room for the next launch to start early.
    if ((t > 40 && t <= 100 && pdl != Pdl::off) || t > 1536) plan.form = Form::two;
  }
  plan.in_turn = t > 1536 && !late;
  if (pdl == Pdl::off) plan.prefetch = false;
  if (!fits(plan, problem.n, problem.d)) plan.form = problem.d > kBlockColumns ? Form::narrow : Form::one;
  if (!fits(plan, problem.n, problem.d)) plan.stream = false;
  return plan;
}

/// sm_90 and the family of sm_100.
constexpr bool has_code_for(int32_t arch) { return arch == 90 || arch == 100 || arch == 103; }

constexpr Reason accepts(const AttnResProblem& problem, const DeviceFacts& facts) {
  if (!has_code_for(facts.arch_number)) return refuse("arch", facts.arch, "sm_90, sm_100 or sm_103");
  if (problem.dtype != DType::bf16) return refuse("dtype", to_string(problem.dtype), "bf16");
  if (problem.n > kMostSources) return refuse("num_blocks", problem.n, "at most 8");
  if (problem.d % kLeafColumns != 0) return refuse("hidden size", problem.d, "a multiple of 256");
  if (problem.d > kMostColumns) return refuse("hidden size", problem.d, "at most 8192");
  if (problem.align < 16) return refuse("alignment", problem.align, "16 bytes of every row and weight");
  if (problem.t > INT32_MAX) return refuse("tokens", problem.t, "at most 2147483647");
  return accept();
}

/// "7 x 128 threads a token, streaming loads after a prefetch; late: 2 x 224 threads a token, plain loads"
std::string describe(const AttnResProblem& problem, const DeviceFacts& facts);

Status launch(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch);
/// The same with a form of the caller's choice (one that fits); tests compare them, tuning times them.
Status launch_plan(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch, const Plan& plan);

}  // namespace silt::attn_res_cuda_sm90_direct
