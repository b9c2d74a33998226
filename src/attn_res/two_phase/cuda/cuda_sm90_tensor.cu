// What: attn_res_partials (contract.md) on Hopper and Blackwell with matrix units: one sweep over the bank for up to
// eight queries.
//
// When: bf16 bank, bf16 or fp32 partials, 1 to 8 blocks, 1 to 8 queries, D a multiple of 128 up to 7168, every row and
// weight aligned to 16 bytes, statistics to 4; any strides (cuda_sm90_tensor.hpp).
//
// Plan: persistent clusters of two blocks, one per pair of SMs; a cluster takes every pairs-th token, each block half
// of its columns. Weights are made once a block. Per token: wait for the rows, dot products and squares, sums of the
// warps, exchange with the peer, softmax in every warp, mixtures and their store, then the rows of a later token are
// asked for.
//
// Matrix units: dots are m16n8k16, A = weights (rows 0-7 the bf16 high parts of eight queries, 8-15 the low parts: a
// product of two bf16 has 16 significant bits, so high + low is exact), B = 8 sources. Squares are the diagonal of
// B^T * B: the tile of sources is its own A. Mixtures are m16n8k8, A = softmax weights (high and low part), B = the
// same rows loaded transposed. A lane gets the dots of exactly the query and sources whose softmax weights it hands to
// the mixture, so that no weight passes through memory. Absent sources are a row of zeros, absent queries zero weights.
//
// Data path: half rows by bulk copies into stages of one token, counted on a barrier a stage; warps read them by
// ldmatrix, twice. A stage is free after the barrier at the end of its token: each thread orders its reads before the
// copy engine's writes in front of it. Sums: warps 7-13 leave theirs in shared memory, 0-6 add their own, warp 0 adds
// up seven, keeps the total and sends it to the peer by st.async; the exchange barrier publishes both. Two of them in
// turn: the peer sends for token j + 2 only after this block has sent for j + 1, when it has read what came for j.
//
// Dependent launch: in late order weights and stable rows of the first tokens are loaded before the dependency wait;
// nothing in wait order. Dependents are triggered with the last token: before that this kernel fills the SMs.
//
// Bytes: 2*D*nb read and Q*(2*D + 8) written per token (cost.cpp); weights stay in L2.
//
// Roofline: D = 7168, nb = Q = 8, T = 4096 on H200: 940 MB, 222 us at the 4237 GB/s of a device copy. A prototype with
// clusters of four (120 of 132 SMs) measured 240-256 us. One token is 2240 cycles of shared memory (weights 896, copies
// 448, rows 2 x 448) and some 7000 warp instructions (1750 cycles) a block, of 6350 that memory needs for its bytes.
//
// Rounding: products are exact, sums fp32 in the matrix unit and behind it; one rounding of mix. Order: columns of a
// warp (pieces of 64, every 14th), warps w and w + 7, then seven sums, then the two blocks. It depends on D alone, so a
// row's bits depend on that row and its query.
//
// Tried: by FMA eight queries take 406 us, four 231 (issue slots). Rings of rows instead of stages leave one row of the
// next token to be asked for at the end of each.
#include "attn_res/two_phase/cuda/cuda_sm90_tensor.hpp"
#include "attn_res/two_phase/cuda/rows.hpp"
#include "device/facts.hpp"
#include "gpu/cluster.hpp"
#include "gpu/launch.hpp"
#include "gpu/matrix.hpp"
#include "gpu/pdl.hpp"
#include "gpu/warp.hpp"

namespace silt::attn_res_partials_cuda_sm90_tensor {
namespace {

using attn_res_two_phase_cuda::exp2_fast;
using attn_res_two_phase_cuda::kLog2E;
using attn_res_two_phase_cuda::Sweep;

constexpr int kStepColumns = 16;  ///< of one matrix instruction for dots
constexpr int kStepsPerPiece = kPieceColumns / kStepColumns;
constexpr int kHalfWarps = kWarps / 2;
constexpr int kPairs = kValues / 2;  ///< values are exchanged as float2: 32 lanes' dots, then 4 pairs of squares
constexpr uint32_t kSentBytes = kValues * sizeof(float);
/// Rows before the dependency wait: none, and no weights either.
constexpr int kNothingEarly = -1;

/// Where a thread stands, and where everything lies in shared memory (addresses as shared instructions take them).
struct Place {
  int lane;
  int warp;
  int query;   ///< of the dots and mixtures of this lane
  int source;  ///< the first of two
  uint32_t rank;
  int columns;  ///< of a block
  int pieces;
  uint32_t row_bytes;
  uint32_t pitch;
  uint32_t weights;
  uint32_t rows;
  uint32_t zeros;  ///< behind the stages; there only with fewer than eight sources
  float2* sums;    ///< kHalfWarps x kPairs; row 0 becomes this block's total
  float2* peer;    ///< 2 x kPairs
  uint32_t full;   ///< a barrier per stage
  uint32_t exchange;
};

template <class Mix>
SILT_DEVICE Place place(const Sweep<Mix>& p, int stages, unsigned char* shared) {
  Place at;
  at.lane = gpu::lane_index();
  at.warp = gpu::warp_index();
  at.query = at.lane / 4;
  at.source = at.lane % 4 * 2;
  at.rank = blockIdx.y;
  at.columns = p.d / kBlocks;
  at.pieces = at.columns / kPieceColumns;
  at.row_bytes = static_cast<uint32_t>(at.columns) * 2;
  at.pitch = at.row_bytes + 16;
  const uint32_t weight_bytes = static_cast<uint32_t>(at.columns) * 32;
  const int rows = stages * p.n + (p.n < kMostSources ? 1 : 0);
  at.weights = gpu::shared_address(shared);
  at.rows = at.weights + weight_bytes;
  at.zeros = at.rows + static_cast<uint32_t>(stages * p.n) * at.pitch;
  unsigned char* sums = shared + weight_bytes + static_cast<uint32_t>(rows) * at.pitch;
  at.sums = reinterpret_cast<float2*>(sums);
  at.peer = at.sums + kHalfWarps * kPairs;
  at.full = gpu::shared_address(sums + kSumBytes);
  at.exchange = at.full + kMostStages * sizeof(uint64_t);
  return at;
}

SILT_DEVICE void store_shared_16(uint32_t address, uint4 v) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}
/// Barriers of two warps, 1..7 (0 is __syncthreads).
SILT_DEVICE void pair_arrive(int id) { asm volatile("bar.arrive %0, 64;" ::"r"(id) : "memory"); }
SILT_DEVICE void pair_sync(int id) { asm volatile("bar.sync %0, 64;" ::"r"(id) : "memory"); }

/// Barriers and the row of zeros; published by the block barrier and the relaxed arrival that follow.
SILT_DEVICE void open_shared(const Place& at, int stages, bool zeros) {
  if (threadIdx.x == 0) {
    for (int i = 0; i < stages; ++i) gpu::mbarrier_init(at.full + static_cast<uint32_t>(i) * 8, 1);
    for (uint32_t i = 0; i < 2; ++i) gpu::mbarrier_init(at.exchange + i * 8, 1);
    gpu::mbarrier_init_fence();
    gpu::copy_engine_fence();
  }
  if (zeros) {
    for (uint32_t i = threadIdx.x * 16; i < at.row_bytes; i += kThreads * 16) {
      store_shared_16(at.zeros + i, make_uint4(0, 0, 0, 0));
    }
  }
}

/// Asks for sources [first, last) of a token, by warp 0, a lane a row. The first call for a stage announces all.
template <class Mix>
SILT_DEVICE void request_rows(const Sweep<Mix>& p, const Place& at, int64_t token, int stage, int first, int last) {
  if (token >= p.t) return;
  const uint32_t full = at.full + static_cast<uint32_t>(stage) * 8;
  if (first == 0 && at.lane == 0) gpu::mbarrier_expect(full, static_cast<uint32_t>(p.n) * at.row_bytes);
  __syncwarp();
  const int i = first + at.lane;
  if (i < last) {
    const uint16_t* row =
        p.blocks + token * p.block_token_stride + i * p.block_slot_stride + static_cast<int64_t>(at.rank) * at.columns;
    gpu::bulk_load(at.rows + static_cast<uint32_t>(stage * p.n + i) * at.pitch, row, at.row_bytes, full);
  }
}

/// The same for the first token of every stage.
template <class Mix>
SILT_DEVICE void request_first(const Sweep<Mix>& p, const Place& at, int stages, int first, int last) {
  if (at.warp != 0) return;
  for (int stage = 0; stage < stages; ++stage) {
    request_rows(p, at, blockIdx.x + static_cast<int64_t>(stage) * gridDim.x, stage, first, last);
  }
}

/// w = norm_weight * qk_weight of this block's columns as A operands: per lane and step 16 bytes (high part of columns
/// 2*(lane % 4) and + 1, low part, then both of the columns 8 further) of query lane / 4.
template <class Mix>
SILT_DEVICE void make_weights(const Sweep<Mix>& p, const Place& at) {
  const int steps = at.columns / kStepColumns;
  const bool present = at.query < p.q;
  const int64_t first = static_cast<int64_t>(at.rank) * at.columns + at.source;
  const uint16_t* norm = p.norm_weight + at.query * p.norm_weight_stride + first;
  const uint16_t* qk = p.qk_weight + at.query * p.qk_weight_stride + first;
#pragma unroll 4
  for (int step = at.warp; step < steps; step += kWarps) {
    uint32_t words[4] = {};
    if (present) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int column = step * kStepColumns + half * 8;
        const uint32_t a = __ldg(reinterpret_cast<const uint32_t*>(norm + column));
        const uint32_t b = __ldg(reinterpret_cast<const uint32_t*>(qk + column));
        const float low = gpu::low_bf16(a) * gpu::low_bf16(b);
        const float high = gpu::high_bf16(a) * gpu::high_bf16(b);
        const uint32_t rounded = gpu::pack_bf16(low, high);
        words[2 * half] = rounded;
        words[2 * half + 1] = gpu::pack_bf16(low - gpu::low_bf16(rounded), high - gpu::high_bf16(rounded));
      }
    }
    store_shared_16(at.weights + static_cast<uint32_t>(step * gpu::kWarpLanes + at.lane) * 16,
                    make_uint4(words[0], words[1], words[2], words[3]));
  }
}

/// This lane's address for tiles of a stage: its row, and its tile's columns in a group of 32.
template <class Mix>
SILT_DEVICE uint32_t tile_row(const Sweep<Mix>& p, const Place& at, int stage) {
  const int source = at.lane % 8;
  const uint32_t row = source < p.n ? at.rows + static_cast<uint32_t>(stage * p.n + source) * at.pitch : at.zeros;
  return row + static_cast<uint32_t>(at.lane / 8) * 16;
}

/// Dots and squares over this warp's columns, added up over the warps of the block into row 0 of the sums, and sent to
/// the peer. Two chains of matrix instructions each: their latency is longer than the loads between them.
SILT_DEVICE void sum_statistics(const Place& at, uint32_t row, uint32_t exchange, float2* peer) {
  float dot[2][4] = {};
  float square[2][4] = {};
#pragma unroll 1
  for (int piece = at.warp; piece < at.pieces; piece += kWarps) {
    const uint32_t tiles = row + static_cast<uint32_t>(piece) * (kPieceColumns * 2);
    const uint32_t weights =
        at.weights + static_cast<uint32_t>(piece * kStepsPerPiece * gpu::kWarpLanes + at.lane) * 16;
#pragma unroll
    for (int group = 0; group < kStepsPerPiece / 2; ++group) {
      uint32_t v[4];
      gpu::load_tiles(v, tiles + static_cast<uint32_t>(group) * 64);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const auto step = static_cast<uint32_t>(2 * group + i);
        gpu::multiply_16(dot[i], gpu::load_shared_16(weights + step * (gpu::kWarpLanes * 16)), v[2 * i], v[2 * i + 1]);
        gpu::multiply_16(square[i], make_uint4(v[2 * i], 0, v[2 * i + 1], 0), v[2 * i], v[2 * i + 1]);
      }
    }
  }
  // High and low parts of the weights; the diagonal is in the lanes whose two columns have their row's number.
  float2 dots =
      make_float2((dot[0][0] + dot[1][0]) + (dot[0][2] + dot[1][2]), (dot[0][1] + dot[1][1]) + (dot[0][3] + dot[1][3]));
  const int row_of_lane = at.lane / 4;
  const bool diagonal = at.lane % 4 == row_of_lane / 2;
  float squares = row_of_lane % 2 == 0 ? square[0][0] + square[1][0] : square[0][1] + square[1][1];

  const int pair = at.warp % kHalfWarps;
  float2* mine = at.sums + pair * kPairs + at.lane;
  float* my_square = reinterpret_cast<float*>(at.sums + pair * kPairs + gpu::kWarpLanes) + row_of_lane;
  if (at.warp < kHalfWarps) {
    pair_sync(1 + pair);
    dots.x += mine->x;
    dots.y += mine->y;
    if (diagonal) squares += *my_square;
  }
  *mine = dots;
  if (diagonal) *my_square = squares;
  if (at.warp >= kHalfWarps) pair_arrive(1 + pair);
  __syncthreads();
  if (at.warp != 0) return;

  // Warp 0 adds up: a lane's dots, and in the first four lanes a pair of squares.
  const bool second = at.lane < kPairs - gpu::kWarpLanes;
  float2 total[2] = {};
#pragma unroll
  for (int w = 0; w < kHalfWarps; ++w) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (i == 1 && !second) continue;
      const float2 part = at.sums[w * kPairs + i * gpu::kWarpLanes + at.lane];
      total[i].x += part.x;
      total[i].y += part.y;
    }
  }
  at.sums[at.lane] = total[0];
  if (second) at.sums[gpu::kWarpLanes + at.lane] = total[1];
  __syncwarp();
  if (at.lane == 0) gpu::mbarrier_expect(exchange, kSentBytes);
  const uint32_t other = at.rank ^ 1;
  const uint32_t there = gpu::remote_address(exchange, other);
  const uint32_t target = gpu::remote_address(gpu::shared_address(peer), other) + static_cast<uint32_t>(at.lane) * 8;
  gpu::store_async(target, total[0], there);
  if (second) gpu::store_async(target + gpu::kWarpLanes * 8, total[1], there);
}

/// The A operand of the mixture: softmax numerators of this lane's query and two sources, as high and low parts.
struct Numerators {
  uint32_t high;
  uint32_t low;
  float largest;      ///< m
  float denominator;  ///< s
};

template <class Mix>
SILT_DEVICE Numerators softmax(const Sweep<Mix>& p, const Place& at, const float2* peer) {
  const auto total = [&](int i) {  // the two blocks' halves; the same bits in either order
    return make_float2(at.sums[i].x + peer[i].x, at.sums[i].y + peer[i].y);
  };
  const float2 dots = total(at.lane);
  const float2 squares = total(gpu::kWarpLanes + at.source / 2);
  const bool first = at.source < p.n;
  const bool second = at.source + 1 < p.n;
  const float x = first ? dots.x * rsqrtf(fmaf(squares.x, p.inverse_d, p.eps)) : -INFINITY;
  const float y = second ? dots.y * rsqrtf(fmaf(squares.y, p.inverse_d, p.eps)) : -INFINITY;
  Numerators e;
  e.largest = gpu::lane_max<4>(fmaxf(x, y));
  const float ex = first ? exp2_fast((x - e.largest) * kLog2E) : 0.0F;
  const float ey = second ? exp2_fast((y - e.largest) * kLog2E) : 0.0F;
  e.denominator = gpu::lane_sum<4>(ex + ey);
  e.high = gpu::pack_bf16(ex, ey);
  e.low = gpu::pack_bf16(ex - gpu::low_bf16(e.high), ey - gpu::high_bf16(e.high));
  return e;
}

/// 32 columns of a query's row: four results of 8 columns, of which this lane has two each.
SILT_DEVICE void store_columns(uint16_t* row, const float2 (&v)[4], int lane, bool present) {
  uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) words[i] = gpu::pack_bf16(v[i].x, v[i].y);
  const uint4 out = gpu::transpose_quad(words, lane);
  if (present) gpu::store_16(row + lane % 4 * 8, out);
}
/// fp32: neighbouring lanes swap a pair, so that each has four columns in a row of one of two results.
SILT_DEVICE void store_columns(float* row, const float2 (&v)[4], int lane, bool present) {
  const bool odd = (lane & 1) != 0;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const float2 send = odd ? v[i] : v[i + 1];
    const float2 keep = odd ? v[i + 1] : v[i];
    const float2 got =
        make_float2(__shfl_xor_sync(gpu::kAllLanes, send.x, 1), __shfl_xor_sync(gpu::kAllLanes, send.y, 1));
    const float4 out = odd ? make_float4(got.x, got.y, keep.x, keep.y) : make_float4(keep.x, keep.y, got.x, got.y);
    if (present) *reinterpret_cast<float4*>(row + (i + (odd ? 1 : 0)) * 8 + lane % 4 / 2 * 4) = out;
  }
}

template <class Mix>
SILT_DEVICE void store_mixtures(const Sweep<Mix>& p, const Place& at, uint32_t row, const Numerators& e,
                                int64_t token) {
  const bool present = at.query < p.q;
  Mix* out =
      p.mix + at.query * p.mix_query_stride + token * p.mix_token_stride + static_cast<int64_t>(at.rank) * at.columns;
#pragma unroll 1
  for (int piece = at.warp; piece < at.pieces; piece += kWarps) {
#pragma unroll
    for (int group = 0; group < 2; ++group) {
      const int column = piece * kPieceColumns + group * (kPieceColumns / 2);
      uint32_t v[4];
      gpu::load_tiles_transposed(v, row + static_cast<uint32_t>(column) * 2);
      float2 mix[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float sum[4] = {};
        gpu::multiply_8(sum, e.high, e.low, v[i]);
        mix[i] = make_float2(sum[0] + sum[2], sum[1] + sum[3]);
      }
      store_columns(out + column, mix, at.lane, present);
    }
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

  int stage = 0;
  uint32_t stage_turn = 0;
  uint32_t turn = 0;  // of the exchange: which of two in bit 0, its phase in bit 1
  for (int64_t token = blockIdx.x; token < p.t; token += gridDim.x) {
    if (token + gridDim.x >= p.t) gpu::trigger_dependents();
    const uint32_t exchange = at.exchange + (turn & 1) * 8;
    float2* peer = at.peer + (turn & 1) * kPairs;
    const uint32_t row = tile_row(p, at, stage);
    gpu::mbarrier_wait(at.full + static_cast<uint32_t>(stage) * 8, stage_turn);
    __syncwarp();
    sum_statistics(at, row, exchange, peer);
    __syncwarp();
    gpu::mbarrier_wait_cluster(exchange, turn >> 1 & 1);
    __syncwarp();
    const Numerators e = softmax(p, at, peer);
    if (at.rank == 0 && at.warp == 0 && at.source == 0 && at.query < p.q) {
      float* pair = p.statistics + at.query * p.statistics_query_stride + token * p.statistics_token_stride;
      pair[0] = e.largest;
      pair[1] = e.denominator;
    }
    store_mixtures(p, at, row, e, token);
    gpu::copy_engine_fence();
    __syncthreads();
    if (at.warp == 0) request_rows(p, at, token + static_cast<int64_t>(stages) * gridDim.x, stage, 0, p.n);
    if (++stage == stages) {
      stage = 0;
      stage_turn ^= 1;
    }
    turn = (turn + 1) & 3;
  }
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
