// What: attn_res_partials (contract.md) on Hopper and Blackwell with matrix units: one sweep over the bank for up to
// eight queries.
//
// When: bf16 bank, bf16 or fp32 partials, 1 to 8 blocks, 1 to 8 queries, D a multiple of 128 up to 7168, every row and
// weight aligned to 16 bytes, statistics to 4; any strides (cuda_sm90_tensor.hpp).
//
// Plan: persistent clusters of two blocks, one per pair of SMs; a cluster takes every pairs-th token, each block half
// of its columns. Weights are made once a block. Per token: wait for the rows, dot products and squares, sums of the
// warps, then the rows of a later token are asked for and the sums sent; mixtures of the token before and their store;
// softmax in every warp.
//
// Matrix units: dots are m16n8k16, A = weights (rows 0-7 the bf16 high parts of eight queries, 8-15 the low parts: a
// product of two bf16 has 16 significant bits, so high + low is exact), B = 8 sources. Squares are the diagonal of
// B^T * B: the tile of sources is its own A. Mixtures are m16n8k8, A = softmax weights (high and low part), B = the
// same rows loaded transposed. A lane gets the dots of exactly the query and sources whose softmax weights it hands to
// the mixture, so that no weight passes through memory. Absent sources are a row of zeros, absent queries zero weights.
//
// Data path: half rows by bulk copies into stages of one token, counted on a barrier a stage; warps read them by
// ldmatrix, as operands of the sums and, transposed, of the mixture. The latter stay in registers, so that a stage is
// free at the barrier behind the sums of the warps: each thread orders its reads before the copy engine's writes in
// front of it. Only two stages fit. The sums of a token travel while the one before it is mixed and stored.
// Sums: warps 7-13 leave theirs in shared memory, 0-6 add their own behind a barrier, warp 0 adds up seven, keeps the
// total and sends it to the peer by st.async; the exchange barrier publishes both. All have read the total at the
// barrier behind the softmax; from there a warp goes on to the next token by itself. Two exchanges in turn: the peer
// sends for token j + 2 only after this block has sent for j + 1, when it has read what came for j.
//
// Dependent launch: in late order weights and stable rows of the first tokens are loaded before the dependency wait;
// nothing in wait order. Dependents are triggered with the last token: before that this kernel fills the SMs.
//
// Bytes: 2*D*nb read and Q*(2*D + 8) written per token (cost.cpp); weights stay in L2.
//
// Roofline: D = 7168, nb = Q = 8, T = 4096 on H200: 940 MB, 222 us at the 4237 GB/s of a device copy. A prototype with
// clusters of four (120 of 132 SMs) measured 240-256 us. One token is 2240 cycles of shared memory
// (weights 896, copies 448, rows 2 x 448) and some 7000 warp instructions (1750 cycles) a block, of 6350 that memory
// needs for its bytes.
//
// Rounding: products are exact, sums fp32 in the matrix unit and behind it; one rounding of mix. Order: columns of a
// warp (pieces of 64, every 14th), warps w and w + 7, then seven sums, then the two blocks. It depends on D alone, so a
// row's bits depend on that row and its query.
//
// Tried: by FMA eight queries take 406 us, four 231 (issue slots). Rings of rows instead of stages leave one row of the
// next token to be asked for at the end of each. One token after the other, its rows read twice or held, or stored 128
// bytes at a time: 260 to 264 us.
#include "attn_res/two_phase/cuda/cuda_sm90_tensor.hpp"
#include "attn_res/two_phase/cuda/cuda_sm90_tensor_token.hpp"
#include "device/facts.hpp"
#include "gpu/launch.hpp"
#include "gpu/memory.hpp"
#include "gpu/pdl.hpp"

namespace silt::attn_res_partials_cuda_sm90_tensor {
namespace {

/// Rows before the dependency wait: none, and no weights either.
constexpr int kNothingEarly = -1;

/// Barriers and the row of zeros; published by the block barrier and the relaxed arrival that follow.
SILT_DEVICE void open_shared(const Place& at, int stages, bool zeros) {
  if (threadIdx.x == 0) {
#pragma unroll 1
    for (int i = 0; i < stages; ++i) gpu::mbarrier_init(at.full + static_cast<uint32_t>(i) * 8, 1);
    for (uint32_t i = 0; i < 2; ++i) gpu::mbarrier_init(at.exchange + i * 8, 1);
    gpu::mbarrier_init_fence();
    gpu::copy_engine_fence();
  }
  if (zeros) {
    for (uint32_t i = threadIdx.x * 16; i < at.row_bytes; i += kThreads * 16) {
      gpu::store_shared_16(at.zeros + i, make_uint4(0, 0, 0, 0));
    }
  }
}

/// Asks for sources [first, last) of a token, one by each warp: a copy is some thirty instructions of one lane. The
/// last warp announces all of them with the first; a copy that ends before it is announced is counted all the same.
/// Warp 0 asks for none: it has the sums of the block to add up.
template <class Mix>
SILT_DEVICE void request_rows(const Sweep<Mix>& p, const Place& at, int64_t token, int stage, int first, int last) {
  static_assert(kMostSources + 1 < kWarps);
  if (token >= p.t) return;
  const uint32_t full = at.full + static_cast<uint32_t>(stage) * 8;
  if (at.lane == 0) {
    const int i = at.warp - 1;
    if (first == 0 && at.warp == kWarps - 1) gpu::mbarrier_expect(full, static_cast<uint32_t>(p.n) * at.row_bytes);
    if (i >= first && i < last) {
      const uint16_t* row = p.blocks + token * p.block_token_stride + i * p.block_slot_stride +
                            static_cast<int64_t>(at.rank) * at.columns;
      gpu::bulk_load(at.rows + static_cast<uint32_t>(stage * p.n + i) * at.pitch, row, at.row_bytes, full);
    }
  }
  __syncwarp();
}

/// The same for the first token of every stage.
template <class Mix>
SILT_DEVICE void request_first(const Sweep<Mix>& p, const Place& at, int stages, int first, int last) {
#pragma unroll 1
  for (int stage = 0; stage < stages; ++stage) {
    request_rows(p, at, blockIdx.x + static_cast<int64_t>(stage) * gridDim.x, stage, first, last);
  }
}

/// w = norm_weight * qk_weight of this block's columns as A operands: per lane and step 16 bytes (high part of columns
/// 2*(lane % 4) and + 1, low part, then both of the columns 8 further) of query lane / 4.
///
/// A warp reads 32 columns of all queries at once, 16 bytes a lane. Every block begins elsewhere: all of them read the
/// same lines, and a line is in one place of L2.
template <class Mix>
SILT_DEVICE void make_weights(const Sweep<Mix>& p, const Place& at) {
  constexpr int kGroup = 32;  // columns
  const int groups = at.columns / kGroup;
  const bool present = at.query < p.q;
  const int chunk = at.lane % 4;  // of eight columns: half a step
  const int64_t first = static_cast<int64_t>(at.rank) * at.columns + chunk * 8;
  const uint16_t* norm = p.norm_weight + at.query * p.norm_weight_stride + first;
  const uint16_t* qk = p.qk_weight + at.query * p.qk_weight_stride + first;
  const uint32_t to =
      at.weights + static_cast<uint32_t>((chunk / 2 * gpu::kWarpLanes + at.query * 4) * 16 + chunk % 2 * 8);
  const auto begin = static_cast<int>((blockIdx.x * 5) % static_cast<uint32_t>(groups));
#pragma unroll 4
  for (int i = at.warp; i < groups; i += kWarps) {
    const int group = begin + i < groups ? begin + i : begin + i - groups;
    uint4 a = {};
    uint4 b = {};
    if (present) {
      a = gpu::load_16<gpu::Load::constant>(norm + group * kGroup);
      b = gpu::load_16<gpu::Load::constant>(qk + group * kGroup);
    }
    const uint32_t left[4] = {a.x, a.y, a.z, a.w};
    const uint32_t right[4] = {b.x, b.y, b.z, b.w};
    const uint32_t base = to + static_cast<uint32_t>(group) * (kGroup / kStepColumns * gpu::kWarpLanes * 16);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float low = gpu::low_bf16(left[k]) * gpu::low_bf16(right[k]);
      const float high = gpu::high_bf16(left[k]) * gpu::high_bf16(right[k]);
      const uint32_t rounded = gpu::pack_bf16(low, high);
      const uint32_t rest = gpu::pack_bf16(low - gpu::low_bf16(rounded), high - gpu::high_bf16(rounded));
      gpu::store_shared_8(base + static_cast<uint32_t>(k) * 16, make_uint2(rounded, rest));
    }
  }
}

template <class Mix>
SILT_DEVICE void store_statistics(const Sweep<Mix>& p, const Place& at, const Numerators& e, int64_t token) {
  if (at.rank != 0 || at.warp != 0 || at.source != 0 || at.query >= p.q) return;
  float* pair = p.statistics + at.query * p.statistics_query_stride + token * p.statistics_token_stride;
  pair[0] = e.largest;
  pair[1] = e.denominator;
}

/// Which stage and which exchange a token takes.
struct Turn {
  int stage = 0;
  uint32_t stage_phase = 0;
  uint32_t exchange = 0;  ///< which of two in bit 0, its phase in bit 1

  SILT_DEVICE void next(int stages) {
    if (++stage == stages) {
      stage = 0;
      stage_phase ^= 1;
    }
    exchange = (exchange + 1) & 3;
  }
};

/// Sums of a token, on their way to the peer; its tiles in registers. Its stage is then for `later`.
template <class Mix>
SILT_DEVICE void begin_token(const Sweep<Mix>& p, const Place& at, int64_t later, const Turn& turn,
                             Tiles (&tiles)[kMostPieces]) {
  gpu::mbarrier_wait(at.full + static_cast<uint32_t>(turn.stage) * 8, turn.stage_phase);
  __syncwarp();
  const uint32_t row = tile_row(p, at, turn.stage);
  Sums sums;
#pragma unroll
  for (int i = 0; i < kMostPieces; ++i) {
    const int piece = at.warp + i * kWarps;
    if (piece >= at.pieces) break;
    add_piece(at, row, piece, sums);
    load_mixture_tiles(row, piece, tiles[i]);
  }
  add_up_warps(at, sums);
  gpu::copy_engine_fence();
  __syncthreads();
  request_rows(p, at, later, turn.stage, 0, p.n);
  if (at.warp == 0) send_total(at, at.exchange + (turn.exchange & 1) * 8, at.peer + (turn.exchange & 1) * kPairs);
  __syncwarp();
}

/// Its softmax numerators, in every warp, once the peer's sums are there.
template <class Mix>
SILT_DEVICE Numerators end_sums(const Sweep<Mix>& p, const Place& at, int64_t token, const Turn& turn) {
  gpu::mbarrier_wait_cluster(at.exchange + (turn.exchange & 1) * 8, turn.exchange >> 1 & 1);
  __syncwarp();
  const Numerators e = softmax(p, at, at.peer + (turn.exchange & 1) * kPairs);
  __syncthreads();  // the total may be overwritten
  store_statistics(p, at, e, token);
  return e;
}

template <class Mix>
SILT_DEVICE void mix_token(const Sweep<Mix>& p, const Place& at, int64_t token, const Tiles (&tiles)[kMostPieces],
                           const Numerators& e) {
  Mix* out = mixture_row(p, at, token, at.query);
#pragma unroll
  for (int i = 0; i < kMostPieces; ++i) {
    const int piece = at.warp + i * kWarps;
    if (piece >= at.pieces) break;
    store_piece(at, out, at.query < p.q, piece, tiles[i], e);
  }
}

/// early: leading rows of the first tokens that are asked for before the dependency wait, where the weights are made as
/// well; or kNothingEarly.
template <class Mix>
__global__ void __launch_bounds__(kThreads, 1)
    attn_res_partials_cuda_sm90_tensor(const Sweep<Mix> p, const int stages, const int early) {
  extern __shared__ __align__(128) unsigned char shared[];
  const Place at = place(p, stages, shared);
  open_shared(at, stages, p.n < kMostSources);
  __syncthreads();
  gpu::cluster_arrive_relaxed();
  if (early != kNothingEarly) {
    if (early > 0) request_first(p, at, stages, 0, early);
    make_weights(p, at);
    gpu::dependency_wait();
    if (early < p.n) request_first(p, at, stages, early, p.n);
  } else {
    gpu::dependency_wait();
    request_first(p, at, stages, 0, p.n);
    make_weights(p, at);
  }
  gpu::cluster_wait();  // the peer's barriers exist
  __syncthreads();      // the weights are there

  // The sums of the next token travel while this one is mixed.
  Turn turn;
  const auto stride = static_cast<int64_t>(gridDim.x);
  int64_t token = blockIdx.x;
  Tiles tiles[kMostPieces];
  begin_token(p, at, token + stages * stride, turn, tiles);
  Numerators e = end_sums(p, at, token, turn);
#pragma unroll 1
  for (; token + stride < p.t; token += stride) {
    turn.next(stages);
    Tiles next[kMostPieces];
    begin_token(p, at, token + (stages + 1) * stride, turn, next);
    mix_token(p, at, token, tiles, e);
    e = end_sums(p, at, token + stride, turn);
#pragma unroll
    for (int i = 0; i < kMostPieces; ++i) {
#pragma unroll
      for (int k = 0; k < 8; ++k) tiles[i][k / 4][k % 4] = next[i][k / 4][k % 4];
    }
  }
  gpu::trigger_dependents();
  mix_token(p, at, token, tiles, e);
}

/// A launch without the attribute starts when everything before it has ended: all may be read first.
int early_of(const AttnResPartialsProblem& problem, Pdl pdl) {
  if (pdl == Pdl::off) return static_cast<int>(problem.n);
  return pdl == Pdl::late ? static_cast<int>(problem.stable_rows()) : kNothingEarly;
}

template <class Mix>
Status run(const AttnResPartialsProblem& problem, const AttnResPartialsArgs& args, const Launch& launch) {
  constexpr gpu::KernelName kName = {"attn_res_partials", "cuda_sm90_tensor"};
  static gpu::DeviceSetup setup;
  const DeviceFacts* facts = nullptr;
  if (const Status status = facts_of(args.blocks.device, &facts); !status.ok()) return status;
  const auto work = attn_res_partials_cuda_sm90_tensor<Mix>;
  const int tokens = stages(problem.n, problem.d);
  gpu::LaunchShape shape;
  shape.cluster = kBlocks;
  shape.grid = pairs(problem, *facts);
  shape.block = kThreads;
  shape.shared_bytes = static_cast<size_t>(shared_bytes(problem.n, problem.d, tokens));
  shape.dependent = launch.pdl != Pdl::off;
  const Status status =
      setup.allow_shared(kName, reinterpret_cast<const void*>(work), args.blocks.device.index, shape.shared_bytes);
  if (!status.ok()) return status;
  return gpu::launch(kName, work, shape, args.blocks.device, launch,
                     attn_res_two_phase_cuda::make_sweep<Mix>(problem, args), tokens, early_of(problem, launch.pdl));
}

}  // namespace

Status launch(const AttnResPartialsProblem& problem, const AttnResPartialsArgs& args, const Launch& launch) {
  return problem.partial == DType::bf16 ? run<uint16_t>(problem, args, launch) : run<float>(problem, args, launch);
}

}  // namespace silt::attn_res_partials_cuda_sm90_tensor
