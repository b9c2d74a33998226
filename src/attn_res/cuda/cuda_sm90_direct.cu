// What: attn_res (contract.md) on Hopper and Blackwell with direct 16-byte loads, rows kept in registers as bf16.
//
// When: bf16, 0 to 8 blocks, D a multiple of 256 up to 8192, every row and weight aligned to 16 bytes; any strides,
// with or without delta, slot write and output norm (cuda_sm90_direct.hpp).
//
// Plan: one token per cluster, nothing persistent. A lane holds 8 columns of every row: 4 registers a row. Narrow: one
// block of 128 threads per 1024 columns. Wide: four blocks of up to 7 warps, or two of up to 14. Phases: load all rows,
// statistics, exchange of partial sums across the cluster, softmax, mixture from the registers, output norm with a
// second exchange, store.
//
// Data path: every row is read once, 16 bytes a lane, by the thread that also writes those columns of prefix, slot and
// output; nothing is staged in shared memory. Only partial sums cross blocks, by st.async onto an mbarrier of the
// receiver: barrier 0 makes the statistics visible, barrier 1 the norm sums. The cluster barrier at the start makes
// the mbarriers visible to the senders. None is needed at the end: a block ends only after every message sent to it
// has arrived. The block barriers of a narrow block publish the four partial sums of its warps.
//
// Dependent launch: in late order stable rows (all, or all but the last; fewer count as none) and weights are loaded
// before the dependency wait, and dependents are triggered right after it; otherwise the trigger comes last, and only
// addresses and mbarriers are made before the wait. Rows in late order are plain or streaming loads, never the
// read-only path: ptxas may move those below the wait, and then nothing is early.
//
// Bytes: 2*D*(nb + 1 + 2*delta + write + 1) per token (cost.cpp); the weights stay in L2.
//
// Roofline: D = 7168, nb = 8, T = 8192 on H200: 1.41 GB, 333 us at the 4237 GB/s of a device copy. A prototype of this
// design measured 319 us, this kernel 318; at one token nothing but latency counts: 2.35 us (prototype) against 1.2 us
// of moving the bytes.
//
// Rounding: fp32 from the loads to one rounding at p and one at the output. Sums: 8 columns of a lane in order, lanes
// by a butterfly, warps in groups of four, groups in order. Neither T nor the form changes that order, so a row's bits
// depend on the row alone.
//
// Tried: see docs/ladder/attn_res_cuda.md. In short: rings of bulk copies and persistent blocks are slower here; more
// than 8 blocks a token too; statistics of bank rows before the dependency wait gain nothing; unpacked values that stay
// alive between statistics and mixture spill (hence unpack_bf16_again).
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

/// Threads and blocks per SM that the register budget is cut for: 72 registers at 8 blocks (28 warps an SM in every
/// form), 56 at 4, 32 to 40 below.
constexpr int threads(Form form) { return kWarpLanes * most_warps(form); }
constexpr int blocks_per_processor(Form form, int n) {
  constexpr int kNarrow[] = {16, 12, 10, 10, 9, 8, 8, 7, 7};
  constexpr int kFour[] = {6, 6, 5, 5, 5, 4, 4, 4, 4};
  constexpr int kTwo[] = {3, 3, 2, 2, 2, 2, 2, 2, 2};
  return form == Form::narrow ? kNarrow[n] : form == Form::four ? kFour[n] : kTwo[n];
}

/// Orders in which no row is read early: the trigger comes last; or all rows are asked for in L2 before the dependency
/// wait, and the trigger comes right after it.
constexpr int kWaitFirst = -1;
constexpr int kPrefetchFirst = -2;

/// A token's registers: 8 columns of every row, and of the weights.
template <int kN>
struct Columns {
  uint4 rows[kN + 1];  ///< the bank, then prefix (later p)
  uint4 delta;
  uint4 norm;
  uint4 qk;
};

/// Rows [first, last) of the bank; `row` is the address of the next.
template <Load kRows, int kN>
SILT_DEVICE void load_bank(Columns<kN>& c, const uint16_t*& row, int64_t slot_stride, int first, int last) {
#pragma unroll
  for (int i = first; i < last; ++i) {
    c.rows[i] = load_16<kRows>(row);
    row += slot_stride;
  }
}

/// Prefix and delta. Never read-only: the producer of a dependent launch may still run when this kernel starts.
template <Load kRows, int kN>
SILT_DEVICE void load_moving(Columns<kN>& c, const uint16_t* prefix, const uint16_t* delta, bool has_delta) {
  c.rows[kN] = load_16<kRows>(prefix);
  if (has_delta) c.delta = load_16<kRows>(delta);
}

/// Read-only loads: weights belong to no kernel of the stream. Plain ones would miss L1 in every block (its acquire of
/// the cluster barrier drops what they cached), and all SMs would ask L2 for the same lines: 20-35 % of the time at
/// T >= 512 for 1 to 6 blocks.
template <int kN>
SILT_DEVICE void load_weights(Columns<kN>& c, const Rows& p, uint32_t column) {
  if constexpr (kN > 0) {
    c.norm = load_16<Load::constant>(p.norm_weight + column);
    c.qk = load_16<Load::constant>(p.qk_weight + column);
  }
}

/// One thread a row: this block's columns of it, of a narrow form.
template <int kN>
SILT_DEVICE void prefetch_rows(const Rows& p, int64_t token) {
  const auto i = static_cast<int>(threadIdx.x);
  if (i > (p.delta != nullptr ? kN + 1 : kN)) return;
  const int first = static_cast<int>(blockIdx.y) * kGroupColumns;
  const uint16_t* row = i < kN    ? p.blocks + token * p.block_token_stride + i * p.block_slot_stride
                        : i == kN ? p.prefix + token * p.prefix_stride
                                  : p.delta + token * p.delta_stride;
  prefetch_l2(row + first, static_cast<uint32_t>(min(kGroupColumns, p.d - first)) * 2);
}

/// kEarly: rows of the bank that are read before the dependency wait, or one of the orders above.
template <int kN, bool kNorm, int kEarly, Form kForm, Load kRows>
__global__ void __launch_bounds__(threads(kForm), blocks_per_processor(kForm, kN))
    attn_res_cuda_sm90_direct(const Rows p) {
  constexpr int kSources = kN + 1;
  constexpr int kValues = kN == 0 ? 0 : 2 * kSources;
  __shared__ Exchange<kForm, kValues> exchange;

  const Place at = place<kForm>(p.d);
  const int64_t token = blockIdx.x;
  const uint16_t* bank = p.blocks + token * p.block_token_stride + at.column;
  uint16_t* prefix = p.prefix + token * p.prefix_stride + at.column;
  const uint16_t* delta = p.delta + token * p.delta_stride + at.column;
  const bool has_delta = p.delta != nullptr;

  // Everything the token needs is asked for at once; statistics start with the first rows while the last are under way.
  Columns<kN> c;
  if constexpr (kEarly >= 0) {
    load_bank<kRows>(c, bank, p.block_slot_stride, 0, kEarly);
    load_weights(c, p, at.column);
    open_exchange<kForm, kValues, kNorm>(exchange, p.d);
    dependency_wait();
    trigger_dependents();
    load_moving<kRows>(c, prefix, delta, has_delta);
    load_bank<kRows>(c, bank, p.block_slot_stride, kEarly, kN);
  } else {
    if constexpr (kEarly == kPrefetchFirst) prefetch_rows<kN>(p, token);
    open_exchange<kForm, kValues, kNorm>(exchange, p.d);
    dependency_wait_after(prefix, bank + p.block_slot_stride, p.norm_weight + at.column, p.qk_weight + at.column);
    if constexpr (kEarly == kPrefetchFirst) trigger_dependents();
    load_bank<kRows>(c, bank, p.block_slot_stride, 0, kN);
    load_moving<kRows>(c, prefix, delta, has_delta);
    load_weights(c, p, at.column);
  }
  if constexpr (kValues > 0 || kNorm) cluster_wait();  // the peers' mbarriers exist; passes under the loads' latency

  // Statistics of the bank, then p = prefix + delta and its own.
  float w[8];
  float partial[kSources];
  const auto statistics = [&](int i) {
    float dot = 0.0F;
    float squares = 0.0F;
    attn_res_cuda::add_statistics(c.rows[i], w, dot, squares);
    partial[i] = fold_pair(dot, squares, at.lane);
  };
  if constexpr (kN > 0) {
    attn_res_cuda::weight_product(c.norm, c.qk, w);
#pragma unroll
    for (int i = 0; i < kN; ++i) statistics(i);
  }
  if (has_delta) {
    c.rows[kN] = add_bf16(c.rows[kN], c.delta);
    if (at.active) store_16(prefix, c.rows[kN]);
  }
  if (p.written != nullptr && at.active) {
    store_16(p.written + token * p.block_token_stride + at.column, c.rows[kN]);
  }

  float mix[8];
  uint4 g = {};
  if constexpr (kNorm) g = load_16<Load::constant>(p.output_norm_weight + at.column);
  if constexpr (kN > 0) {
    statistics(kN);
    reduce_scatter<kSources, 8>(partial, at.lane);
    const float total = exchange_statistics(exchange, at, at.active ? partial[0] : 0.0F);
    const float e = attn_res_cuda::softmax_numerator<kSources>(total, at.lane, p.inverse_d, p.eps);
    float denominator = 0.0F;  // every lane adds up its own, beside the mixture
#pragma unroll
    for (float& m : mix) m = 0.0F;
#pragma unroll
    for (int i = 0; i < kSources; ++i) {
      const float weight = __shfl_sync(kAllLanes, e, i);
      denominator += weight;
      attn_res_cuda::add_scaled(c.rows[i], weight, mix);
    }
    const float inverse = attn_res_cuda::reciprocal_fast(denominator);
#pragma unroll
    for (float& m : mix) m *= inverse;
  } else {
    unpack_bf16(c.rows[0], mix);
  }

  uint4 out;
  if constexpr (kNorm) {
    const float squares = exchange_norm(exchange, at, at.active ? attn_res_cuda::sum_of_squares(mix) : 0.0F);
    out = attn_res_cuda::normalised(mix, rsqrtf(fmaf(squares, p.inverse_d, p.output_norm_eps)), g);
  } else {
    out = pack_bf16(mix);
  }
  if (at.active) store_16(p.output + token * p.output_stride + at.column, out);
  if constexpr (kEarly == kWaitFirst) trigger_dependents();
}

using Work = void (*)(Rows);

/// What is instantiated for a form and load hint: order (nothing early, all rows but the last, all rows), norm, blocks.
struct Works {
  Work of[3][2][kMostSources + 1];
};
template <Form kForm, Load kRows, int... kN>
constexpr Works works(std::integer_sequence<int, kN...>) {
  return {{{{attn_res_cuda_sm90_direct<kN, false, kWaitFirst, kForm, kRows>...},
            {attn_res_cuda_sm90_direct<kN, true, kWaitFirst, kForm, kRows>...}},
           {{attn_res_cuda_sm90_direct<kN, false, (kN > 0 ? kN - 1 : 0), kForm, kRows>...},
            {attn_res_cuda_sm90_direct<kN, true, (kN > 0 ? kN - 1 : 0), kForm, kRows>...}},
           {{attn_res_cuda_sm90_direct<kN, false, kN, kForm, kRows>...},
            {attn_res_cuda_sm90_direct<kN, true, kN, kForm, kRows>...}}}};
}
using Blocks = std::make_integer_sequence<int, kMostSources + 1>;
constexpr Works kWorks[] = {works<Form::narrow, Load::plain>(Blocks{}), works<Form::narrow, Load::stream>(Blocks{}),
                            works<Form::four, Load::plain>(Blocks{}), works<Form::two, Load::plain>(Blocks{}),
                            works<Form::two, Load::stream>(Blocks{})};

struct PrefetchingWorks {
  Work of[2][kMostSources + 1];
};
template <int... kN>
constexpr PrefetchingWorks prefetching_works(std::integer_sequence<int, kN...>) {
  return {{{attn_res_cuda_sm90_direct<kN, false, kPrefetchFirst, Form::narrow, Load::stream>...},
           {attn_res_cuda_sm90_direct<kN, true, kPrefetchFirst, Form::narrow, Load::stream>...}}};
}
constexpr PrefetchingWorks kPrefetchingWorks = prefetching_works(Blocks{});

constexpr int index_of(const Plan& plan) {
  if (plan.form == Form::four) return 2;
  return (plan.form == Form::two ? 3 : 0) + (plan.stream ? 1 : 0);
}

/// Fewer stable rows than all but the last count as none: then nothing is early, and late order gains nothing.
int order_of(const AttnResProblem& problem, Pdl pdl) {
  if (pdl != Pdl::late || problem.stable_rows() < problem.n - 1) return 0;
  return problem.stable_rows() < problem.n ? 1 : 2;
}

}  // namespace

Status launch_plan(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch, const Plan& plan) {
  const int order = order_of(problem, launch.pdl);
  const bool prefetch = plan.prefetch && launch.pdl != Pdl::off && order == 0;
  const Work work = prefetch ? kPrefetchingWorks.of[problem.norm][problem.n]
                             : kWorks[index_of(plan)].of[order][problem.norm][problem.n];
  LaunchShape shape;
  shape.cluster = blocks_per_token(plan, problem.d);
  shape.grid = problem.t;
  shape.block = threads_per_block(plan, problem.d);
  shape.dependent = launch.pdl != Pdl::off;
  return gpu::launch({"attn_res", "cuda_sm90_direct"}, work, shape, args.prefix.device, launch,
                     attn_res_cuda::make_rows(problem, args));
}

Status launch(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch) {
  return launch_plan(problem, args, launch, choose_plan(problem, launch.pdl));
}

}  // namespace silt::attn_res_cuda_sm90_direct
