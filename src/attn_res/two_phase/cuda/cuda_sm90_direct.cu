// What: attn_res_merge (contract.md) on Hopper and Blackwell with direct 16-byte loads, rows kept in registers.
//
// When: bf16 activations, bf16 or fp32 partials, D a multiple of 256 up to 8192, every row and weight aligned to 16
// bytes, statistics to 4; any strides, with or without delta, slot and output norm (cuda_sm90_direct.hpp).
//
// Plan: one token per cluster or block, nothing persistent, in the forms of attn_res's kernel of this name: narrow (one
// block of 128 threads per 1024 columns) and one (a block of up to 14 warps, 16 columns a lane). Phases: load prefix,
// delta and partial, statistics of p, their exchange, the two shares, mixture, norm with a second exchange, store.
//
// Data path: every row is read once, 16 bytes a piece, by the thread that also writes those columns of prefix, slot and
// output. Sums of warps meet in the block (its barrier publishes them), those of blocks go by st.async onto an mbarrier
// of the receiver: ../../cuda/cuda_sm90_direct_sums.hpp, with dot product and sum of squares of one row as its values.
//
// Dependent launch: before the wait late order loads the weights, and with stable_partials mix and statistics too;
// prefix and delta always come after it. What may not be read yet can be asked for in L2 (prefetch). Dependents are
// triggered right after the wait, or last (in turn).
//
// Bytes: 2*D*(1 + 2*delta + write + 1 + 1) + 8 a token, mix twice as large in fp32 (cost.cpp); weights stay in L2.
//
// Roofline: D 7168 with delta, T 4096 on H200: 294 MB, 69 us at the 4237 GB/s of a device copy; attn_res with one block
// moves the same bytes in 72 us.
//
// Rounding: fp32, one rounding at p and one at the output. The order of additions is that of the shared header: neither
// T nor the form changes it, so a row's bits depend on the row alone.
#include "attn_res/cuda/cuda_sm90_direct_token.hpp"
#include "attn_res/two_phase/cuda/cuda_sm90_direct.hpp"
#include "attn_res/two_phase/cuda/rows.hpp"
#include "gpu/launch.hpp"

namespace silt::attn_res_merge_cuda_sm90_direct {
namespace {

using attn_res_cuda::add_statistics;
using attn_res_cuda_sm90_direct::Exchange;
using attn_res_cuda_sm90_direct::kCluster;
using attn_res_cuda_sm90_direct::kLeafColumns;
using attn_res_cuda_sm90_direct::kPieces;
using attn_res_cuda_sm90_direct::load_pieces;
using attn_res_cuda_sm90_direct::Place;
using attn_res_cuda_sm90_direct::store_pieces;
using attn_res_two_phase_cuda::Merge;
using attn_res_two_phase_cuda::Shares;
using gpu::kWarpLanes;
using gpu::Load;

/// Dot product and sum of squares of p.
constexpr int kValues = 2;

/// What may be read before the dependency wait.
enum class Early : int32_t { nothing, weights, all };

/// The partial's columns of a lane: 16 bytes of bf16 a piece, 32 of fp32.
template <class Mix, int kPer>
struct Partial {
  static constexpr int kVectors = static_cast<int>(sizeof(Mix) / sizeof(uint16_t));
  uint4 pieces[kPer][kVectors];
  float m;
  float s;

  template <Load kRows>
  SILT_DEVICE void load(const Mix* row, const float* pair) {
#pragma unroll
    for (int k = 0; k < kPer; ++k) {
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        pieces[k][i] = gpu::load_16<kRows>(row + k * (kLeafColumns / 2) + i * (8 / kVectors));
      }
    }
    // In assembly as the rows are, so that they stay on their side of the wait.
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(m) : "l"(pair) : "memory");
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(s) : "l"(pair + 1) : "memory");
  }
  SILT_DEVICE void unpack(int k, float (&v)[8]) const {
    if constexpr (kVectors == 1) {
      gpu::unpack_bf16(pieces[k][0], v);
    } else {
      const uint4 low = pieces[k][0];
      const uint4 high = pieces[k][1];
      const uint32_t words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
      for (int i = 0; i < 8; ++i) v[i] = __uint_as_float(words[i]);
    }
  }
};

/// Asks for the rows of this block in L2: prefix, delta, and the partial where it may not be read yet.
template <Form kForm, class Mix>
SILT_DEVICE void prefetch_rows(const Merge<Mix>& p, const Place& at, int64_t token, bool partial) {
  using attn_res_cuda_sm90_direct::kBlockColumns;
  const int first = kForm == Form::narrow ? static_cast<int>(blockIdx.y) * kBlockColumns : 0;
  const int columns = kForm == Form::narrow ? min(kBlockColumns, p.d - first) : p.d;
  if (at.warp > 0) return;
  if (at.lane == 0) {
    gpu::prefetch_l2(p.prefix + token * p.prefix_stride + first, static_cast<uint32_t>(columns) * 2);
  } else if (at.lane == 1 && p.delta != nullptr) {
    gpu::prefetch_l2(p.delta + token * p.delta_stride + first, static_cast<uint32_t>(columns) * 2);
  } else if (at.lane == 2 && partial) {
    gpu::prefetch_l2(p.mix + token * p.mix_stride + first, static_cast<uint32_t>(columns * sizeof(Mix)));
  }
}

/// Registers of a token: columns of every row, once or twice.
template <class Mix, int kPer>
struct Columns {
  uint4 own[kPer];  ///< prefix, then p
  uint4 delta[kPer];
  uint4 norm[kPer];
  uint4 qk[kPer];
  Partial<Mix, kPer> partial;
};

template <class Mix, int kPer>
SILT_DEVICE void load_weights(Columns<Mix, kPer>& c, const Merge<Mix>& p, uint32_t column) {
  load_pieces<Load::constant>(c.norm, p.norm_weight + column);
  load_pieces<Load::constant>(c.qk, p.qk_weight + column);
}

/// Everything the token needs, on the right side of the wait; opens the exchange meanwhile.
template <Form kForm, bool kNorm, Early kEarly, Load kRows, class Mix, int kPer>
SILT_DEVICE void load_token(const Merge<Mix>& p, Begin begin, Exchange<kForm, kValues>& exchange, const Place& at,
                            int64_t token, Columns<Mix, kPer>& c) {
  const uint16_t* prefix = p.prefix + token * p.prefix_stride + at.column;
  const uint16_t* delta = p.delta + token * p.delta_stride + at.column;
  const Mix* mix = p.mix + token * p.mix_stride + at.column;
  const float* pair = p.statistics + token * p.statistics_stride;
  if constexpr (kEarly != Early::nothing) load_weights(c, p, at.column);
  if constexpr (kEarly == Early::all) c.partial.template load<kRows>(mix, pair);
  if (begin == Begin::prefetch) prefetch_rows<kForm>(p, at, token, kEarly != Early::all);
  attn_res_cuda_sm90_direct::open_exchange<kForm, kValues, kNorm>(exchange);
  if constexpr (kEarly == Early::nothing) {
    gpu::dependency_wait_after(prefix, mix, pair, p.norm_weight + at.column, p.qk_weight + at.column);
  } else {
    gpu::dependency_wait();
  }
  if (begin != Begin::in_turn) gpu::trigger_dependents();
  load_pieces<kRows>(c.own, prefix);
  if (p.delta != nullptr) load_pieces<kRows>(c.delta, delta);
  if constexpr (kEarly != Early::all) c.partial.template load<kRows>(mix, pair);
  if constexpr (kEarly == Early::nothing) load_weights(c, p, at.column);
  // The peers' barriers exist; passes under the loads' latency.
  if constexpr (kCluster<kForm>) gpu::cluster_wait();
}

/// p = prefix + delta, stored where it belongs.
template <class Mix, int kPer>
SILT_DEVICE void move_prefix(const Merge<Mix>& p, const Place& at, int64_t token, Columns<Mix, kPer>& c) {
  if (p.delta != nullptr) {
#pragma unroll
    for (int k = 0; k < kPer; ++k) c.own[k] = gpu::add_bf16(c.own[k], c.delta[k]);
    if (at.active) store_pieces(p.prefix + token * p.prefix_stride + at.column, c.own);
  }
  if (p.slot != nullptr && at.active) store_pieces(p.slot + token * p.slot_stride + at.column, c.own);
}

/// The logit of p, in every thread.
template <Form kForm, class Mix, int kPer>
SILT_DEVICE float logit_of(const Merge<Mix>& p, Exchange<kForm, kValues>& exchange, const Place& at,
                           const Columns<Mix, kPer>& c) {
  float dot[kPer] = {};
  float squares[kPer] = {};
#pragma unroll
  for (int k = 0; k < kPer; ++k) {
    float w[8];
    attn_res_cuda::weight_product(c.norm[k], c.qk[k], w);
    add_statistics(c.own[k], w, dot[k], squares[k]);
  }
  float partial[1];
  if constexpr (kPer == 1) {
    partial[0] = gpu::fold_pair<kWarpLanes / 2>(dot[0], squares[0], at.lane);
  } else {
    partial[0] = gpu::fold_pair<kWarpLanes / 4>(dot[0] + dot[1], squares[0] + squares[1], at.lane);
  }
  gpu::reduce_scatter<1, kPer == 1 ? 8 : 4>(partial, at.lane);
  const float total = attn_res_cuda_sm90_direct::exchange_statistics(exchange, at, partial);
  const float all_dot = __shfl_sync(gpu::kAllLanes, total, 0);
  const float all_squares = __shfl_sync(gpu::kAllLanes, total, 1);
  return all_dot * rsqrtf(fmaf(all_squares, p.inverse_d, p.eps));
}

constexpr int threads(Form form) { return kWarpLanes * attn_res_cuda_sm90_direct::most_warps(form); }
/// 36 to 48 registers in a narrow form; one: two blocks of 14 warps an SM, 72 registers.
constexpr int blocks_per_processor(Form form) { return form == Form::narrow ? 10 : 2; }

template <Form kForm, bool kStream, bool kNorm, Early kEarly, class Mix>
__global__ void __launch_bounds__(threads(kForm), blocks_per_processor(kForm))
    attn_res_merge_cuda_sm90_direct(const Merge<Mix> p, const Begin begin) {
  constexpr int kPer = kPieces<kForm>;
  constexpr Load kRows = kStream ? Load::stream : Load::plain;
  __shared__ Exchange<kForm, kValues> exchange;
  const Place at = attn_res_cuda_sm90_direct::place<kForm>(p.d);
  const int64_t token = blockIdx.x;

  Columns<Mix, kPer> c;
  load_token<kForm, kNorm, kEarly, kRows>(p, begin, exchange, at, token, c);
  move_prefix(p, at, token, c);
  const Shares shares = attn_res_two_phase_cuda::shares_of(c.partial.m, c.partial.s, logit_of(p, exchange, at, c));

  float mix[kPer][8];
#pragma unroll
  for (int k = 0; k < kPer; ++k) {
    float own[8];
    c.partial.unpack(k, mix[k]);
    gpu::unpack_bf16_again(c.own[k], own);
#pragma unroll
    for (int i = 0; i < 8; ++i) mix[k][i] = fmaf(shares.bank, mix[k][i], shares.prefix * own[i]) * shares.inverse;
  }

  uint4 out[kPer];
  if constexpr (kNorm) {
    uint4 g[kPer];
    load_pieces<Load::constant>(g, p.output_norm_weight + at.column);
    float squares = attn_res_cuda::sum_of_squares(mix[0]);
    if constexpr (kPer > 1) squares += attn_res_cuda::sum_of_squares(mix[1]);
    const float scale =
        rsqrtf(fmaf(attn_res_cuda_sm90_direct::exchange_norm(exchange, at, squares), p.inverse_d, p.output_norm_eps));
#pragma unroll
    for (int k = 0; k < kPer; ++k) out[k] = attn_res_cuda::normalised(mix[k], scale, g[k]);
  } else {
#pragma unroll
    for (int k = 0; k < kPer; ++k) out[k] = gpu::pack_bf16(mix[k]);
  }
  if (at.active) store_pieces(p.output + token * p.output_stride + at.column, out);
  if (begin == Begin::in_turn) gpu::trigger_dependents();
}

template <class Mix>
using Work = void (*)(Merge<Mix>, Begin);

/// What is instantiated for a form and load hint: norm, order.
template <class Mix>
struct Works {
  Work<Mix> of[2][3];
};
template <Form kForm, bool kStream, class Mix>
constexpr Works<Mix> kWorks = {{{attn_res_merge_cuda_sm90_direct<kForm, kStream, false, Early::nothing, Mix>,
                                 attn_res_merge_cuda_sm90_direct<kForm, kStream, false, Early::weights, Mix>,
                                 attn_res_merge_cuda_sm90_direct<kForm, kStream, false, Early::all, Mix>},
                                {attn_res_merge_cuda_sm90_direct<kForm, kStream, true, Early::nothing, Mix>,
                                 attn_res_merge_cuda_sm90_direct<kForm, kStream, true, Early::weights, Mix>,
                                 attn_res_merge_cuda_sm90_direct<kForm, kStream, true, Early::all, Mix>}}};

/// A launch without the attribute starts when everything before it has ended: all may be read first.
Early early_of(const AttnResMergeProblem& problem, Pdl pdl, const Plan& plan) {
  if (pdl == Pdl::off) return Early::all;
  if (pdl != Pdl::late || plan.begin == Begin::in_turn) return Early::nothing;
  return problem.stable ? Early::all : Early::weights;
}

template <class Mix>
Status run(const AttnResMergeProblem& problem, const AttnResMergeArgs& args, const Launch& launch, const Plan& plan) {
  const Works<Mix>& works = plan.form == Form::one ? kWorks<Form::one, false, Mix>
                            : plan.stream          ? kWorks<Form::narrow, true, Mix>
                                                   : kWorks<Form::narrow, false, Mix>;
  const Work<Mix> work = works.of[problem.norm ? 1 : 0][static_cast<size_t>(early_of(problem, launch.pdl, plan))];
  gpu::LaunchShape shape;
  shape.cluster = plan.form == Form::one ? 0 : blocks_per_token(plan, problem.d);
  shape.grid = problem.t;
  shape.block = threads_per_block(plan, problem.d);
  shape.dependent = launch.pdl != Pdl::off;
  return gpu::launch({"attn_res_merge", "cuda_sm90_direct"}, work, shape, args.prefix.device, launch,
                     attn_res_two_phase_cuda::make_merge<Mix>(problem, args), plan.begin);
}

}  // namespace

Status launch_plan(const AttnResMergeProblem& problem, const AttnResMergeArgs& args, const Launch& launch,
                   const Plan& plan) {
  return problem.partial == DType::bf16 ? run<uint16_t>(problem, args, launch, plan)
                                        : run<float>(problem, args, launch, plan);
}

Status launch(const AttnResMergeProblem& problem, const AttnResMergeArgs& args, const Launch& launch) {
  return launch_plan(problem, args, launch, choose_plan(problem, launch.pdl));
}

}  // namespace silt::attn_res_merge_cuda_sm90_direct
