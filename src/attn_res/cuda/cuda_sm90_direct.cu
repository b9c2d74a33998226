// What: attn_res (contract.md) on Hopper and Blackwell with direct 16-byte loads, rows kept in registers as bf16.
//
// When: bf16, 0 to 8 blocks, D a multiple of 256 up to 8192, every row and weight aligned to 16 bytes; any strides,
// with or without delta, slot write and output norm (cuda_sm90_direct.hpp).
//
// Plan: one token per cluster, nothing persistent. A lane holds 8 columns of every row: 4 registers a row. Narrow: one
// block of 128 threads per 1024 columns. Wide: two blocks of up to 14 warps. Phases: load all rows, statistics,
// exchange of partial sums across the cluster, softmax, mixture from the registers, output norm with a second exchange,
// store.
//
// Data path: every row is read once, 16 bytes a lane, by the thread that also writes those columns of prefix, slot and
// output; nothing is staged in shared memory. Only partial sums cross blocks, by st.async onto an mbarrier of the
// receiver: barrier 0 makes the statistics visible, barrier 1 the norm sums. The cluster barrier at the start makes
// the mbarriers visible to the senders. None is needed at the end: a block ends only after every message sent to it
// has arrived. The block barriers of a narrow block publish the four partial sums of its warps.
//
// Dependent launch: in late order stable rows (all, or all but the last; fewer count as none) and weights are loaded
// before the dependency wait, and dependents are triggered right after it; otherwise the wait comes first and the
// trigger last. Rows in late order are plain or streaming loads, never the read-only path: ptxas moves those below the
// wait, and then nothing is early.
//
// Bytes: 2*D*(nb + 1 + 2*delta + write + 1) per token (cost.cpp); the weights stay in L2.
//
// Roofline: D = 7168, nb = 8, T = 8192 on H200: 1.41 GB, 333 us at the 4237 GB/s of a device copy. A prototype of this
// design measured 319 us; at one token, where nothing but latency counts, 2.35 us against 1.2 us of moving the bytes.
//
// Rounding: fp32 from the loads to one rounding at p and one at the output. Sums: 8 columns of a lane in order, lanes
// by a butterfly, warps in groups of four, groups in order. Neither T nor the form changes that order, so a row's bits
// depend on the row alone.
//
// Tried: see docs/ladder/attn_res_cuda.md. In short: rings of bulk copies and persistent blocks are slower here; more
// than 8 blocks a token too; statistics of bank rows before the dependency wait gain nothing; unpacked values that stay
// alive between statistics and mixture spill (hence unpack_bf16_again).
#include "attn_res/cuda/cuda_sm90_direct.hpp"
#include "attn_res/cuda/rows.hpp"
#include "gpu/cluster.hpp"
#include "gpu/launch.hpp"
#include "gpu/pdl.hpp"

namespace silt::attn_res_cuda_sm90_direct {
namespace {

using namespace gpu;        // NOLINT(google-build-using-namespace): the vocabulary this file is written in
using attn_res_cuda::Rows;  // the arguments

/// Blocks per SM that the register budget is cut for. Narrow: 72 registers at 8 sources (7 blocks of 128 threads), 32
/// without any. Wide: two blocks of 448 threads, more where few rows leave room.
constexpr int narrow_blocks(int n) {
  constexpr int kBlocks[] = {16, 12, 10, 10, 9, 8, 8, 7, 7};
  return kBlocks[n];
}
constexpr int wide_blocks(int n) { return n == 0 ? 4 : n == 1 ? 3 : 2; }
constexpr int threads(Form form) { return form == Form::narrow ? 32 * kGroupWarps : 32 * kMostWideWarps; }

/// Where a thread stands.
struct Place {
  int lane;
  int warp;
  int warp_of_row;  ///< which 256 columns
  /// They exist. The last block of a row may have idle warps: they read the last columns once more, so that no load is
  /// conditional, add nothing to the sums and store nothing.
  bool active;
  uint32_t column;
};

SILT_DEVICE int warps_of_row(int d) { return static_cast<int>(static_cast<uint32_t>(d) / kWarpColumns); }

template <Form kForm>
SILT_DEVICE Place place(int d) {
  Place at;
  at.lane = lane_index();
  at.warp = warp_index();
  const int block_warps = kForm == Form::narrow ? kGroupWarps : static_cast<int>(blockDim.x / kWarpLanes);
  at.warp_of_row = static_cast<int>(blockIdx.y) * block_warps + at.warp;
  at.active = at.warp_of_row < warps_of_row(d);
  const int warp = min(at.warp_of_row, warps_of_row(d) - 1);
  at.column = static_cast<uint32_t>(warp * kWarpColumns + at.lane * kChunkColumns);
  return at;
}

/// Shared memory of the two exchanges: what the other blocks send.
template <Form kForm, int kValues>
struct Exchange {
  static constexpr int kSenders = kForm == Form::narrow ? kMostGroups : kMostWarps;
  static constexpr int kPitch = kValues == 0 ? 1 : kValues;
  float statistics[kSenders][kPitch];
  alignas(16) float norms[kSenders];
  float block_statistics[kGroupWarps][kPitch];  ///< narrow: the warps of this block
  alignas(16) float block_norms[kGroupWarps];
  alignas(8) uint64_t barrier[2];
};

/// Barriers that expect what this block will be sent; published by the relaxed arrival that follows.
template <Form kForm, int kValues, bool kNorm>
SILT_DEVICE void open_exchange(Exchange<kForm, kValues>& exchange, int d) {
  if constexpr (kValues == 0 && !kNorm) return;
  if (threadIdx.x == 0) {
    const auto senders = static_cast<uint32_t>(kForm == Form::narrow ? static_cast<int>(gridDim.y) : warps_of_row(d));
    const uint32_t statistics = shared_address(&exchange.barrier[0]);
    const uint32_t norms = shared_address(&exchange.barrier[1]);
    mbarrier_init(statistics, 1);
    mbarrier_init(norms, 1);
    mbarrier_init_fence();
    if constexpr (kValues > 0) mbarrier_expect(statistics, senders * kValues * sizeof(float));
    if constexpr (kNorm) mbarrier_expect(norms, senders * sizeof(float));
  }
  __syncwarp();
  cluster_arrive_relaxed();
}

/// Sums of four in order, then the groups in order: the one order of this kernel. value(i) is the sum of warp i.
template <class Value>
SILT_DEVICE float sum_of_warps(int warps, Value value) {
  float total = 0.0F;
#pragma unroll
  for (int group = 0; group < kMostWarps; group += kGroupWarps) {
    if (group < warps) {
      float sum = value(group);
#pragma unroll
      for (int i = 1; i < kGroupWarps; ++i) sum += group + i < warps ? value(group + i) : 0.0F;
      total += sum;
    }
  }
  return total;
}

/// From kValues partial sums per warp, scattered over its lanes (one at most), to the total `lane` of the whole row in
/// every warp of the cluster.
template <int kValues>
SILT_DEVICE float exchange_statistics(Exchange<Form::narrow, kValues>& exchange, const Place& at, int, float partial) {
  const Scattered held = scattered<kValues>(at.lane);
  if (held.count >= 1) exchange.block_statistics[at.warp][held.first] = partial;
  __syncthreads();
  const uint32_t barrier = shared_address(&exchange.barrier[0]);
  const bool listed = at.lane < kValues;
  if (listed) {
    float sum = exchange.block_statistics[0][at.lane];
#pragma unroll
    for (int i = 1; i < kGroupWarps; ++i) sum += exchange.block_statistics[i][at.lane];
    const uint32_t mine = shared_address(&exchange.statistics[blockIdx.y][at.lane]);
#pragma unroll
    for (int first = 0; first < kMostGroups; first += kGroupWarps) {  // warp w serves blocks w and w + 4
      const auto target = static_cast<uint32_t>(first + at.warp);
      if (first + at.warp < static_cast<int>(gridDim.y))
        store_async(remote_address(mine, target), sum, remote_address(barrier, target));
    }
  }
  __syncwarp();
  mbarrier_wait(barrier, 0);
  float total = 0.0F;
  if (listed) {
#pragma unroll
    for (int i = 0; i < kMostGroups; ++i)
      total += i < static_cast<int>(gridDim.y) ? exchange.statistics[i][at.lane] : 0.0F;
  }
  return total;
}

template <int kValues>
SILT_DEVICE float exchange_statistics(Exchange<Form::wide, kValues>& exchange, const Place& at, int d, float partial) {
  const Scattered held = scattered<kValues>(at.lane);
  const uint32_t barrier = shared_address(&exchange.barrier[0]);
  if (held.count >= 1 && at.active) {
    const uint32_t mine = shared_address(&exchange.statistics[at.warp_of_row][held.first]);
#pragma unroll
    for (uint32_t target = 0; target < kWideBlocks; ++target) {
      store_async(remote_address(mine, target), partial, remote_address(barrier, target));
    }
  }
  __syncwarp();
  mbarrier_wait(barrier, 0);
  if (at.lane >= kValues) return 0.0F;
  return sum_of_warps(warps_of_row(d), [&](int i) { return exchange.statistics[i][at.lane]; });
}

/// The sum over the row of one value per warp, in every thread.
template <int kValues>
SILT_DEVICE float exchange_norm(Exchange<Form::narrow, kValues>& exchange, const Place& at, int, float squares) {
  squares = lane_sum(squares);
  if (at.lane == 0) exchange.block_norms[at.warp] = squares;
  __syncthreads();
  const uint32_t barrier = shared_address(&exchange.barrier[1]);
  if (at.warp == 0) {
    float sum = exchange.block_norms[0];
#pragma unroll
    for (int i = 1; i < kGroupWarps; ++i) sum += exchange.block_norms[i];
    const auto target = static_cast<uint32_t>(at.lane);
    const uint32_t mine = shared_address(&exchange.norms[blockIdx.y]);
    if (at.lane < static_cast<int>(gridDim.y))
      store_async(remote_address(mine, target), sum, remote_address(barrier, target));
    __syncwarp();
  }
  mbarrier_wait(barrier, 0);
  float total = 0.0F;
#pragma unroll
  for (int i = 0; i < kMostGroups; ++i) total += i < static_cast<int>(gridDim.y) ? exchange.norms[i] : 0.0F;
  return total;
}

template <int kValues>
SILT_DEVICE float exchange_norm(Exchange<Form::wide, kValues>& exchange, const Place& at, int d, float squares) {
  squares = lane_sum(squares);
  const uint32_t barrier = shared_address(&exchange.barrier[1]);
  if (at.lane < kWideBlocks && at.active) {
    const auto target = static_cast<uint32_t>(at.lane);
    const uint32_t mine = shared_address(&exchange.norms[at.warp_of_row]);
    store_async(remote_address(mine, target), squares, remote_address(barrier, target));
  }
  __syncwarp();
  mbarrier_wait(barrier, 0);
  return sum_of_warps(warps_of_row(d), [&](int i) { return exchange.norms[i]; });
}

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

template <Load kWeights, int kN>
SILT_DEVICE void load_weights(Columns<kN>& c, const Rows& p, uint32_t column) {
  if constexpr (kN > 0) {
    c.norm = load_16<kWeights>(p.norm_weight + column);
    c.qk = load_16<kWeights>(p.qk_weight + column);
  }
}

template <int kN, bool kNorm, bool kLate, Form kForm, Load kRows>
__global__ void __launch_bounds__(threads(kForm), kForm == Form::narrow ? narrow_blocks(kN) : wide_blocks(kN))
    attn_res_cuda_sm90_direct(const Rows p) {
  constexpr int kSources = kN + 1;
  constexpr int kValues = kN == 0 ? 0 : 2 * kSources;
  constexpr int kEarly = kN == 0 ? 0 : kN - 1;  // rows that late order reads early: all, all but the last, or none
  __shared__ Exchange<kForm, kValues> exchange;

  const Place at = place<kForm>(p.d);
  const int64_t token = blockIdx.x;
  const uint16_t* bank = p.blocks + token * p.block_token_stride + at.column;
  uint16_t* prefix = p.prefix + token * p.prefix_stride + at.column;
  const uint16_t* delta = p.delta + token * p.delta_stride + at.column;
  const bool has_delta = p.delta != nullptr;

  // Everything the token needs is asked for at once; statistics start with the first rows while the last are under way.
  Columns<kN> c;
  if constexpr (kLate) {
    if (p.stable >= kEarly) load_bank<kRows>(c, bank, p.block_slot_stride, 0, kEarly);
    if (p.stable >= kN) load_bank<kRows>(c, bank, p.block_slot_stride, kEarly, kN);
    load_weights<Load::plain>(c, p, at.column);
    open_exchange<kForm, kValues, kNorm>(exchange, p.d);
    dependency_wait();
    trigger_dependents();
    if (p.stable < kEarly) load_bank<kRows>(c, bank, p.block_slot_stride, 0, kEarly);
    if (p.stable < kN) load_bank<kRows>(c, bank, p.block_slot_stride, kEarly, kN);
    load_moving<kRows>(c, prefix, delta, has_delta);
  } else {
    dependency_wait();
    load_bank<kRows>(c, bank, p.block_slot_stride, 0, kN);
    load_moving<kRows>(c, prefix, delta, has_delta);
    load_weights<Load::constant>(c, p, at.column);
    open_exchange<kForm, kValues, kNorm>(exchange, p.d);
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
    const float total = exchange_statistics(exchange, at, p.d, at.active ? partial[0] : 0.0F);
    const float weight = attn_res_cuda::softmax_weight<kSources>(total, at.lane, p.inverse_d, p.eps);
#pragma unroll
    for (float& m : mix) m = 0.0F;
#pragma unroll
    for (int i = 0; i < kSources; ++i) {
      attn_res_cuda::add_scaled(c.rows[i], __shfl_sync(kAllLanes, weight, i), mix);
    }
  } else {
    unpack_bf16(c.rows[0], mix);
  }

  uint4 out;
  if constexpr (kNorm) {
    const float squares = exchange_norm(exchange, at, p.d, at.active ? attn_res_cuda::sum_of_squares(mix) : 0.0F);
    out = attn_res_cuda::normalised(mix, rsqrtf(fmaf(squares, p.inverse_d, p.output_norm_eps)), g);
  } else {
    out = pack_bf16(mix);
  }
  if (at.active) store_16(p.output + token * p.output_stride + at.column, out);
  if constexpr (!kLate) trigger_dependents();
}

using Work = void (*)(Rows);

/// What is instantiated: form and load hint, then order, norm, blocks.
struct Works {
  Work of[2][2][kMostSources + 1];
};
template <Form kForm, Load kRows, int... kN>
constexpr Works works(std::integer_sequence<int, kN...>) {
  return {{{{attn_res_cuda_sm90_direct<kN, false, false, kForm, kRows>...},
            {attn_res_cuda_sm90_direct<kN, true, false, kForm, kRows>...}},
           {{attn_res_cuda_sm90_direct<kN, false, true, kForm, kRows>...},
            {attn_res_cuda_sm90_direct<kN, true, true, kForm, kRows>...}}}};
}
using Blocks = std::make_integer_sequence<int, kMostSources + 1>;
constexpr Works kWorks[2][2] = {
    {works<Form::narrow, Load::plain>(Blocks{}), works<Form::narrow, Load::stream>(Blocks{})},
    {works<Form::wide, Load::plain>(Blocks{}), works<Form::wide, Load::stream>(Blocks{})}};

}  // namespace

Status launch_plan(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch, const Plan& plan) {
  const bool late = launch.pdl == Pdl::late;
  const Work work = kWorks[plan.form == Form::wide][plan.stream].of[late][problem.norm][problem.n];
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
