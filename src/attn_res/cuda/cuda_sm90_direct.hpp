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

/// How a launch begins.
enum class Begin : int32_t {
  rows,      ///< by asking for its rows; dependents are triggered right after the dependency wait
  prefetch,  ///< before that wait, rows that may not be read yet are asked for in L2
  in_turn,   ///< nothing before the wait, dependents are triggered last (attn_res_merge; no gain here)
};

struct Plan {
  Form form = Form::narrow;
  bool stream = false;  ///< rows with the streaming hint (gpu/memory.hpp)
  Begin begin = Begin::rows;
};

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

/// What is built: what plan_of takes, and something for every hidden size. The beginning is compiled in: as a branch at
/// run time it cost 2-5 % from 1024 tokens on. The hint gains where latency counts, at few tokens.
constexpr bool has_code(const Plan& plan, int64_t n) {
  if (plan.begin == Begin::in_turn) return false;
  if (plan.form == Form::narrow) {
    if (plan.stream) return plan.begin == Begin::prefetch;
    return n >= (plan.begin == Begin::prefetch ? 3 : 6);
  }
  if (plan.form == Form::two) return !plan.stream;
  if (plan.stream) return n == 1 && plan.begin == Begin::rows;
  return n == 1 || plan.begin == Begin::rows;
}

/// The most columns of forms two and one.
constexpr int kOneColumns = 14 * kPairColumns;

/// Clusters have at least two blocks, and both of form two have at least two warps.
constexpr bool fits(const Plan& plan, int64_t n, int64_t d) {
  if (!has_code(plan, n)) return false;
  if (plan.form == Form::one) return d <= kOneColumns;
  return d > kBlockColumns && (plan.form != Form::two || d <= kOneColumns);
}

/// The fastest form by what was measured at 7168 columns (docs/ladder/attn_res_cuda.md); other sizes go by their bytes.
/// Few tokens: narrow after a prefetch, where latency counts. Then two blocks a token, which leave the next launch room
/// to start early; from 6 rows on narrow ones again, below that two for good. Between the numbers of rows and tokens
/// that were measured (rows 0, 1, 2, 4, 6, 8; tokens by powers of two) the nearest one counts.
constexpr Plan plan_of(int64_t n, int64_t t, bool late) {
  constexpr Plan kFew = {Form::narrow, true, Begin::prefetch};
  constexpr Plan kNarrow = {Form::narrow};
  constexpr Plan kNarrowPrefetch = {Form::narrow, false, Begin::prefetch};
  constexpr Plan kTwo = {Form::two};
  constexpr Plan kTwoPrefetch = {Form::two, false, Begin::prefetch};
  constexpr Plan kOne = {Form::one};
  if (n == 0) {
    if (t > 24 && t <= 90) return kTwoPrefetch;
    return t <= 384 ? kFew : kTwo;
  }
  if (n <= 2) {
    if (t <= (n == 1 ? 90 : 48)) return kFew;
    if (n == 1 && t <= 384 && t > (late ? 192 : 90)) return {Form::one, late, late ? Begin::rows : Begin::prefetch};
    return t <= (late ? 320 : 700) ? kTwoPrefetch : kTwo;
  }
  if (n <= 5) {
    if (t <= (late ? 48 : 90)) return kFew;
    if (late ? t > 192 && t <= 320 : t <= 192) return kNarrowPrefetch;
    return t <= (late ? 192 : 700) ? kTwoPrefetch : kTwo;
  }
  if (t <= (n == 6 && !late ? 192 : 48)) return kFew;
  if (n > 6 && t <= 90) return kTwoPrefetch;
  if (n > 6 && t <= 192) return kOne;
  return n > 6 && !late && t <= 384 ? kNarrowPrefetch : kNarrow;
}

/// The plan, or the nearest one that there is for these rows and columns: narrow has code for all rows under the hint
/// after a prefetch, two and one without it; every hidden size has a form.
constexpr Plan nearest(Plan plan, int64_t n, int64_t d) {
  if (fits(plan, n, d)) return plan;
  const bool fits_columns = plan.form == Form::narrow ? d > kBlockColumns
                            : plan.form == Form::two  ? d > kBlockColumns && d <= kOneColumns
                                                      : d <= kOneColumns;
  if (!fits_columns) plan.form = d > kBlockColumns ? Form::narrow : Form::one;
  if (fits(plan, n, d)) return plan;
  return plan.form == Form::narrow ? Plan{Form::narrow, true, Begin::prefetch} : Plan{plan.form};
}

constexpr Plan choose_plan(const AttnResProblem& problem, Pdl pdl) {
  return nearest(plan_of(problem.n, problem.t * problem.d / 7168, pdl == Pdl::late), problem.n, problem.d);
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

/// "narrow.stream.prefetch"
std::string to_string(const Plan& plan);
/// "7 x 128 threads a token, streaming loads after a prefetch"
std::string describe(const Plan& plan, int64_t d);
/// "7 x 128 threads a token, streaming loads after a prefetch; late: 2 x 224 threads a token, plain loads"
std::string describe(const AttnResProblem& problem, const DeviceFacts& facts);

Status launch(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch);
/// The same with a form of the caller's choice (one that fits); tests compare them, tuning times them.
Status launch_plan(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch, const Plan& plan);

}  // namespace silt::attn_res_cuda_sm90_direct
