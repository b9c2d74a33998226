// The promise of cuda_sm90_direct: one token per block or cluster of blocks, rows held in registers. Plain C++: the
// choice for a GPU can be explained where there is none.
#pragma once

#include "attn_res/list.hpp"

namespace silt::attn_res_cuda_sm90_direct {

/// A lane reads a row in pieces of 16 bytes. 256 columns are a leaf: its sum is made in one warp, in the same order in
/// every form. Two leaves are a pair, two pairs a group (cuda_sm90_direct_sums.hpp has the order).
constexpr int kPieceColumns = 8;
constexpr int kLeafColumns = 256;
constexpr int kPairColumns = 2 * kLeafColumns;
/// Columns of a group, and of a narrow block.
constexpr int kBlockColumns = 2 * kPairColumns;
constexpr int kMostBlocks = 8;  ///< of a cluster, on every GPU with clusters
constexpr int kMostColumns = kMostBlocks * kBlockColumns;
/// Rows of the bank that fit registers next to the prefix.
constexpr int kMostSources = 8;

enum class Form : int32_t {
  narrow,  ///< one block of 4 warps per 1024 columns, a lane has one piece of a row: least latency
  two,     ///< two blocks of up to 7 warps, two pieces a lane: few messages, most bytes in flight
  one,     ///< one block of up to 14 warps, two pieces a lane: no cluster
};

/// 16-byte pieces of a row that a lane holds.
constexpr int pieces(Form form) { return form == Form::narrow ? 1 : 2; }
/// Warps of 7168 columns: two and one are cut for them, so that no register is left over at that size.
constexpr int most_warps(Form form) { return form == Form::narrow ? 4 : form == Form::two ? 7 : 14; }

struct Plan {
  Form form = Form::narrow;
  bool stream = false;  ///< rows with the streaming hint (gpu/memory.hpp)
  /// Rows that may not be read before the dependency wait are asked for in L2 there.
  bool prefetch = false;
  /// Nothing is done before the dependency wait, and dependents are triggered last; else right after it.
  bool in_turn = false;
  /// A block asks for the rows of the token that will follow it on its SM, in L2, once its own are under way.
  bool ahead = false;
};
constexpr int kAheadFrom = 3;  ///< rows of the bank; with fewer an SM holds all tokens of the sizes that it is for

/// Blocks of 7168 columns that fit an SM: what registers are cut for. 72 at 8 blocks of the bank and one piece a lane,
/// 128 and two pieces; 56 and 80 at 4; 32 to 56 below.
constexpr int blocks_per_processor(Form form, int64_t n) {
  constexpr int kNarrow[] = {16, 12, 10, 10, 9, 8, 8, 7, 7};
  constexpr int kTwo[] = {6, 5, 4, 3, 3, 2, 2, 2, 2};
  constexpr int kOne[] = {3, 2, 2, 1, 1, 1, 1, 1, 1};
  return form == Form::narrow ? kNarrow[n] : form == Form::two ? kTwo[n] : kOne[n];
}

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

/// What is built: what is the fastest somewhere by more than 1 %, and something for every hidden size. The hint gains
/// nothing with two blocks a token and few rows; without it, narrow blocks gain nothing with few rows.
constexpr bool has_code(Form form, bool stream, int64_t n) {
  if (form == Form::narrow) return stream || n >= 3;
  if (form == Form::two) return !stream || n >= 6;
  return stream == (n <= 1);
}

/// Clusters have at least two blocks, and both of form two have at least two warps.
constexpr bool fits(const Plan& plan, int64_t n, int64_t d) {
  if (!has_code(plan.form, plan.stream, n) || (plan.prefetch && plan.in_turn)) return false;
  if (plan.ahead && n < kAheadFrom) return false;
  if (plan.form == Form::one) return d <= 14 * kPairColumns;
  return d > kBlockColumns && (plan.form != Form::two || d <= 14 * kPairColumns);
}

/// The fastest form by what was measured at 7168 columns (docs/ladder/attn_res_cuda.md); other sizes go by their bytes.
/// Few tokens: narrow after a prefetch, where latency counts. Then two blocks a token, which leave the next launch room
/// to start early; from 6 rows on narrow ones again, below that two for good. Between the numbers of rows and tokens
/// that were measured (rows 0, 1, 2, 4, 6, 8; tokens by powers of two) the nearest one counts.
constexpr Plan plan_of(int64_t n, int64_t t, bool late) {
  constexpr Plan kFew = {Form::narrow, true, true};
  constexpr Plan kTwo = {Form::two};
  constexpr Plan kTwoPrefetch = {Form::two, false, true};
  if (n == 0) {
    if (t <= 24) return kFew;
    if (t <= 160) return kTwoPrefetch;
    if (t <= 384) return {Form::one, true, false, true};
    return kTwo;
  }
  if (n <= 2) {
    if (t <= 48) return kFew;
    if (n == 1 && !late && t > 96 && t <= 384) return {Form::one, true, t <= 192};
    return t <= 320 ? kTwoPrefetch : kTwo;
  }
  if (n <= 5) {
    if (t <= (late ? 48 : 192)) return kFew;
    return t <= (late ? 160 : 320) ? kTwoPrefetch : kTwo;
  }
  if (t <= (n == 6 && !late ? 160 : 48)) return kFew;
  if (n > 6 && t <= 192) return {Form::two, true, t <= 96 && !late};
  return {Form::narrow, t <= (n == 6 ? 384 : 700)};
}

constexpr Plan choose_plan(const AttnResProblem& problem, Pdl pdl) {
  Plan plan = plan_of(problem.n, problem.t * problem.d / 7168, pdl == Pdl::late);
  if (pdl == Pdl::off) plan.prefetch = plan.in_turn = false;  // nothing to begin before, or after
  if (!fits(plan, problem.n, problem.d)) plan.form = problem.d > kBlockColumns ? Form::narrow : Form::one;
  if (!fits(plan, problem.n, problem.d)) plan.stream = !plan.stream;
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
