// What: attn_res (contract.md) on Hopper and Blackwell with direct 16-byte loads, rows kept in registers as bf16.
//
// When: bf16, 0 to 8 blocks, D a multiple of 256 up to 8192, every row and weight aligned to 16 bytes; any strides,
// with or without delta, slot write and output norm (cuda_sm90_direct.hpp).
//
// Plan: one token per cluster, or per block; nothing persistent. A lane holds 8 or 16 columns of every row: 4 or 8
// registers a row. Narrow: one block of 128 threads per 1024 columns, 8 columns a lane. Lean: the same columns by 64
// threads. Two: two blocks of up to 7 warps. One: one block of up to 14. Phases: load all rows, statistics, exchange of
// partial sums across the cluster, softmax, mixture from the registers, output norm with a second exchange, store.
//
// Data path: every row is read once, 16 bytes a piece, by the thread that also writes those columns of prefix, slot and
// output; nothing is staged in shared memory. Sums of warps meet in the block (its barrier publishes them), those of
// blocks go by st.async onto an mbarrier of the receiver: barrier 0 makes the statistics visible, barrier 1 the norm
// sums. The cluster barrier at the start makes the mbarriers visible to the senders. None is needed at the end: a block
// ends only after every message sent to it has arrived. Form one has no cluster, and no message to itself.
//
// Dependent launch: in late order stable rows (all, or all but the last; fewer count as none) and weights are loaded
// before the dependency wait; otherwise only addresses and mbarriers are made there. What may not be read yet can be
// asked for in L2 (prefetch): that is no read. Dependents are triggered right after the wait, or last (in turn). Rows
// in late order are plain or streaming loads, never the read-only path: ptxas may move those below the wait, and then
// nothing is early.
//
// Bytes: 2*D*(nb + 1 + 2*delta + write + 1) per token (cost.cpp); the weights stay in L2.
//
// Roofline: D = 7168, nb = 8, T = 8192 on H200: 1.41 GB, 333 us at the 4237 GB/s of a device copy. A prototype of this
// design measured 319 us, this kernel 318; at one token nothing but latency counts: 2.35 us (prototype) against 1.2 us
// of moving the bytes.
//
// Rounding: fp32 from the loads to one rounding at p and one at the output. The order of additions is that of
// cuda_sm90_direct_sums.hpp; neither T nor the form changes it, so a row's bits depend on the row alone.
//
// Tried: see docs/ladder/attn_res_cuda.md. In short: rings of bulk copies and persistent blocks are slower here; more
// than 8 blocks a token too; statistics of bank rows before the dependency wait gain nothing; unpacked values that stay
// alive between statistics and mixture spill (hence unpack_bf16_again); wide blocks that send each other the sums of
// every warp, a thousand messages a token, lose 15-25 % at T >= 1024.
#include "attn_res/cuda/cuda_sm90_direct.hpp"
#include "attn_res/cuda/cuda_sm90_direct_sums.hpp"
#include "attn_res/cuda/rows.hpp"
#include "gpu/cluster.hpp"
#include "gpu/launch.hpp"
#include "gpu/pdl.hpp"

namespace silt::attn_res_cuda_sm90_direct {
namespace {

using namespace gpu;        // NOLINT(google-build-using-namespace): the vocabulary this file is written in
using attn_res_cuda::Rows;  // the arguments

/// Threads and blocks per SM that the register budget is cut for: 72 registers at 8 blocks of the bank and one piece a
/// lane, 128 and two pieces; 56 and 80 at 4; 32 to 56 below.
constexpr int threads(Form form) { return kWarpLanes * most_warps(form); }
constexpr int blocks_per_processor(Form form, int n) {
  constexpr int kNarrow[] = {16, 12, 10, 10, 9, 8, 8, 7, 7};
  constexpr int kLean[] = {16, 16, 16, 12, 12, 10, 8, 8, 8};
  constexpr int kTwo[] = {6, 5, 4, 3, 3, 2, 2, 2, 2};
  constexpr int kOne[] = {3, 2, 2, 1, 1, 1, 1, 1, 1};
  return form == Form::narrow ? kNarrow[n] : form == Form::lean ? kLean[n] : form == Form::two ? kTwo[n] : kOne[n];
}

/// How a launch begins: see Plan.
struct Start {
  bool prefetch;
  bool in_turn;
};
/// The order in which no row is read before the dependency wait.
constexpr int kNoneEarly = -1;

/// A token's registers: 8 columns of every row and of the weights, once or twice.
template <int kN, int kPer>
struct Columns {
  uint4 rows[kN + 1][kPer];  ///< the bank, then prefix (later p)
  uint4 delta[kPer];
  uint4 norm[kPer];
  uint4 qk[kPer];
};

template <Load kRows, int kPer>
SILT_DEVICE void load_pieces(uint4 (&to)[kPer], const uint16_t* row) {
#pragma unroll
  for (int k = 0; k < kPer; ++k) to[k] = load_16<kRows>(row + k * (kLeafColumns / 2));
}
template <int kPer>
SILT_DEVICE void store_pieces(uint16_t* row, const uint4 (&from)[kPer]) {
#pragma unroll
  for (int k = 0; k < kPer; ++k) store_16(row + k * (kLeafColumns / 2), from[k]);
}

/// Rows [first, last) of the bank; `row` is the address of the next.
template <Load kRows, int kN, int kPer>
SILT_DEVICE void load_bank(Columns<kN, kPer>& c, const uint16_t*& row, int64_t slot_stride, int first, int last) {
#pragma unroll
  for (int i = first; i < last; ++i) {
    load_pieces<kRows>(c.rows[i], row);
    row += slot_stride;
  }
}

/// Prefix and delta. Never read-only: the producer of a dependent launch may still run when this kernel starts.
template <Load kRows, int kN, int kPer>
SILT_DEVICE void load_moving(Columns<kN, kPer>& c, const uint16_t* prefix, const uint16_t* delta, bool has_delta) {
  load_pieces<kRows>(c.rows[kN], prefix);
  if (has_delta) load_pieces<kRows>(c.delta, delta);
}

/// Read-only loads: weights belong to no kernel of the stream. Plain ones would miss L1 in every block (its acquire of
/// the cluster barrier drops what they cached), and all SMs would ask L2 for the same lines: 20-35 % of the time at
/// T >= 512 for 1 to 6 blocks.
template <int kN, int kPer>
SILT_DEVICE void load_weights(Columns<kN, kPer>& c, const Rows& p, uint32_t column) {
  if constexpr (kN > 0) {
    load_pieces<Load::constant>(c.norm, p.norm_weight + column);
    load_pieces<Load::constant>(c.qk, p.qk_weight + column);
  }
}

/// Rows [first, kN + 2) of bank, prefix and delta, a lane a row: by the first warp for all columns of its block where
/// those lie together, else by every warp for its own.
template <int kN, Form kForm>
SILT_DEVICE void prefetch_rows(const Rows& p, const Place& at, int64_t token, int first) {
  const int pair = kForm == Form::two ? pair_of<kForm>(at.warp) : kNarrow<kForm> ? 2 * static_cast<int>(blockIdx.y) : 0;
  const int columns = kForm == Form::two ? kPairColumns : kNarrow<kForm> ? kBlockColumns : p.d;
  const int left = p.d - pair * kPairColumns;
  const int i = first + at.lane;
  if ((kForm != Form::two && at.warp > 0) || left <= 0 || i > (p.delta != nullptr ? kN + 1 : kN)) return;
  const uint16_t* row = i < kN    ? p.blocks + token * p.block_token_stride + i * p.block_slot_stride
                        : i == kN ? p.prefix + token * p.prefix_stride
                                  : p.delta + token * p.delta_stride;
  prefetch_l2(row + pair * kPairColumns, static_cast<uint32_t>(min(columns, left)) * 2);
}

/// kEarly: rows of the bank that are read before the dependency wait, with the weights; or kNoneEarly.
template <int kN, bool kNorm, int kEarly, Form kForm, Load kRows>
__global__ void __launch_bounds__(threads(kForm), blocks_per_processor(kForm, kN))
    attn_res_cuda_sm90_direct(const Rows p, const Start start) {
  constexpr int kSources = kN + 1;
  constexpr int kValues = kN == 0 ? 0 : 2 * kSources;
  constexpr int kPer = kPieces<kForm>;
  // Three blocks an SM with two pieces a lane leave no registers for delta beside the statistics.
  constexpr bool kMoveFirst = kPer > 1 && (kN == 3 || kN == 4);
  __shared__ Exchange<kForm, kValues> exchange;

  const Place at = place<kForm>(p.d);
  const int64_t token = blockIdx.x;
  const uint16_t* bank = p.blocks + token * p.block_token_stride + at.column;
  uint16_t* prefix = p.prefix + token * p.prefix_stride + at.column;
  const uint16_t* delta = p.delta + token * p.delta_stride + at.column;
  const bool has_delta = p.delta != nullptr;

  // Everything the token needs is asked for at once; statistics start with the first rows while the last are under way.
  Columns<kN, kPer> c;
  if constexpr (kEarly >= 0) {
    load_bank<kRows>(c, bank, p.block_slot_stride, 0, kEarly);
    load_weights(c, p, at.column);
    if (start.prefetch) prefetch_rows<kN, kForm>(p, at, token, kEarly);
    open_exchange<kForm, kValues, kNorm>(exchange);
    dependency_wait();
    trigger_dependents();
    load_moving<kRows>(c, prefix, delta, has_delta);
    load_bank<kRows>(c, bank, p.block_slot_stride, kEarly, kN);
  } else {
    if (start.prefetch) prefetch_rows<kN, kForm>(p, at, token, 0);
    open_exchange<kForm, kValues, kNorm>(exchange);
    dependency_wait_after(prefix, bank + p.block_slot_stride, p.norm_weight + at.column, p.qk_weight + at.column);
    if (!start.in_turn) trigger_dependents();
    load_bank<kRows>(c, bank, p.block_slot_stride, 0, kN);
    load_moving<kRows>(c, prefix, delta, has_delta);
    load_weights(c, p, at.column);
  }
  // The peers' barriers exist; passes under the loads' latency.
  if constexpr (kCluster<kForm> && (kValues > 0 || kNorm)) cluster_wait();

  // Statistics of the bank, then p = prefix + delta and its own. The first of the additions over lanes follows at once:
  // one register a row survives.
  float w[kPer][8];
  float partial[kSources];
  const auto statistics = [&](int i) {
    float dot[kPer] = {};
    float squares[kPer] = {};
#pragma unroll
    for (int k = 0; k < kPer; ++k) attn_res_cuda::add_statistics(c.rows[i][k], w[k], dot[k], squares[k]);
    if constexpr (kPer == 1) {
      partial[i] = fold_pair<kWarpLanes / 2>(dot[0], squares[0], at.lane);
    } else {
      partial[i] = fold_pair<kWarpLanes / 4>(dot[0] + dot[1], squares[0] + squares[1], at.lane);
    }
  };
  const auto move = [&] {
    if (has_delta) {
#pragma unroll
      for (int k = 0; k < kPer; ++k) c.rows[kN][k] = add_bf16(c.rows[kN][k], c.delta[k]);
      if (at.active) store_pieces(prefix, c.rows[kN]);
    }
    if (p.written != nullptr && at.active) {
      store_pieces(p.written + token * p.block_token_stride + at.column, c.rows[kN]);
    }
  };
  if constexpr (kMoveFirst) move();
  if constexpr (kN > 0) {
#pragma unroll
    for (int k = 0; k < kPer; ++k) attn_res_cuda::weight_product(c.norm[k], c.qk[k], w[k]);
#pragma unroll
    for (int i = 0; i < kN; ++i) statistics(i);
  }
  if constexpr (!kMoveFirst) move();

  float mix[kPer][8] = {};
  uint4 g[kPer] = {};
  if constexpr (kNorm && kPer == 1) load_pieces<Load::constant>(g, p.output_norm_weight + at.column);
  if constexpr (kN > 0) {
    statistics(kN);
    reduce_scatter<kSources, kPer == 1 ? 8 : 4>(partial, at.lane);
    const float total = exchange_statistics(exchange, at, partial);
    const float e = attn_res_cuda::softmax_numerator<kSources>(total, at.lane, p.inverse_d, p.eps);
    float denominator = 0.0F;  // every lane adds up its own, beside the mixture
#pragma unroll
    for (int i = 0; i < kSources; ++i) {
      const float weight = __shfl_sync(kAllLanes, e, i);
      denominator += weight;
#pragma unroll
      for (int k = 0; k < kPer; ++k) attn_res_cuda::add_scaled(c.rows[i][k], weight, mix[k]);
    }
    const float inverse = attn_res_cuda::reciprocal_fast(denominator);
#pragma unroll
    for (int k = 0; k < kPer; ++k) {
#pragma unroll
      for (float& m : mix[k]) m *= inverse;
    }
  } else {
#pragma unroll
    for (int k = 0; k < kPer; ++k) unpack_bf16(c.rows[0][k], mix[k]);
  }

  uint4 out[kPer];
  if constexpr (kNorm) {
    // With two pieces there are no registers for this weight until the rows are done with.
    if constexpr (kPer > 1) load_pieces<Load::constant>(g, p.output_norm_weight + at.column);
    float squares = attn_res_cuda::sum_of_squares(mix[0]);
    if constexpr (kPer > 1) squares += attn_res_cuda::sum_of_squares(mix[1]);
    const float scale = rsqrtf(fmaf(exchange_norm(exchange, at, squares), p.inverse_d, p.output_norm_eps));
#pragma unroll
    for (int k = 0; k < kPer; ++k) out[k] = attn_res_cuda::normalised(mix[k], scale, g[k]);
  } else {
#pragma unroll
    for (int k = 0; k < kPer; ++k) out[k] = pack_bf16(mix[k]);
  }
  if (at.active) store_pieces(p.output + token * p.output_stride + at.column, out);
  if constexpr (kEarly == kNoneEarly) {
    if (start.in_turn) trigger_dependents();
  }
}

using Work = void (*)(Rows, Start);

template <int kN, bool kNorm, int kEarly, Form kForm, bool kStream>
constexpr Work work() {
  if constexpr (has_code(kForm, kStream, kN)) {
    return attn_res_cuda_sm90_direct < kN, kNorm, kEarly, kForm, kStream ? Load::stream : Load::plain > ;
  } else {
    return nullptr;
  }
}

/// What is instantiated for a form and load hint: order (nothing early, all rows but the last, all rows), norm, blocks.
struct Works {
  Work of[3][2][kMostSources + 1];
};
template <Form kForm, bool kStream, int... kN>
constexpr Works works(std::integer_sequence<int, kN...>) {
  return {{{{work<kN, false, kNoneEarly, kForm, kStream>()...}, {work<kN, true, kNoneEarly, kForm, kStream>()...}},
           {{work<kN, false, (kN > 0 ? kN - 1 : 0), kForm, kStream>()...},
            {work<kN, true, (kN > 0 ? kN - 1 : 0), kForm, kStream>()...}},
           {{work<kN, false, kN, kForm, kStream>()...}, {work<kN, true, kN, kForm, kStream>()...}}}};
}
using Blocks = std::make_integer_sequence<int, kMostSources + 1>;
/// By form and hint.
constexpr Works kWorks[][2] = {
    {works<Form::narrow, false>(Blocks{}), works<Form::narrow, true>(Blocks{})},
    {works<Form::lean, false>(Blocks{}), works<Form::lean, true>(Blocks{})},
    {works<Form::two, false>(Blocks{}), works<Form::two, true>(Blocks{})},
    {works<Form::one, false>(Blocks{}), works<Form::one, true>(Blocks{})},
};

/// Fewer stable rows than all but the last count as none: then nothing is early, and late order gains nothing. A launch
/// without the attribute starts when everything before it has ended, so that all rows are stable.
int order_of(const AttnResProblem& problem, Pdl pdl, const Plan& plan) {
  if (pdl == Pdl::off) return 2;
  if (pdl != Pdl::late || plan.in_turn || problem.stable_rows() < problem.n - 1) return 0;
  return problem.stable_rows() < problem.n ? 1 : 2;
}

}  // namespace

Status launch_plan(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch, const Plan& plan) {
  const Works& works = kWorks[static_cast<size_t>(plan.form)][plan.stream ? 1 : 0];
  const Work work = works.of[order_of(problem, launch.pdl, plan)][problem.norm ? 1 : 0][problem.n];
  LaunchShape shape;
  shape.cluster = plan.form == Form::one ? 0 : blocks_per_token(plan, problem.d);
  shape.grid = problem.t;
  shape.block = threads_per_block(plan, problem.d);
  shape.dependent = launch.pdl != Pdl::off;
  return gpu::launch({"attn_res", "cuda_sm90_direct"}, work, shape, args.prefix.device, launch,
                     attn_res_cuda::make_rows(problem, args), Start{plan.prefetch, plan.in_turn});
}

Status launch(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch) {
  return launch_plan(problem, args, launch, choose_plan(problem, launch.pdl));
}

}  // namespace silt::attn_res_cuda_sm90_direct
