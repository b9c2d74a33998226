// A token of cuda_sm90_tensor, from rows in shared memory to the stored mixtures: matrix units, and the sums over warps
// and blocks. Device code; phases and ownership are told in cuda_sm90_tensor.cu.
#pragma once

#include "attn_res/two_phase/cuda/cuda_sm90_tensor.hpp"
#include "attn_res/two_phase/cuda/rows.hpp"
#include "gpu/exchange.hpp"
#include "gpu/matrix.hpp"
#include "gpu/warp.hpp"

namespace silt::attn_res_partials_cuda_sm90_tensor {

using attn_res_two_phase_cuda::exp2_fast;
using attn_res_two_phase_cuda::kLog2E;
using attn_res_two_phase_cuda::Sweep;

constexpr int kStepColumns = 16;  ///< of one matrix instruction for dots
constexpr int kStepsPerPiece = kPieceColumns / kStepColumns;
constexpr int kHalfWarps = kWarps / 2;
constexpr int kPairs = kValues / 2;  ///< values are exchanged as float2: 32 lanes' dots, then 4 pairs of squares
constexpr uint32_t kSentBytes = kValues * sizeof(float);

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

/// This lane's address for tiles of a stage: its row, and its tile's columns in a group of 32.
template <class Mix>
SILT_DEVICE uint32_t tile_row(const Sweep<Mix>& p, const Place& at, int stage) {
  const int source = at.lane % 8;
  const uint32_t row = source < p.n ? at.rows + static_cast<uint32_t>(stage * p.n + source) * at.pitch : at.zeros;
  return row + static_cast<uint32_t>(at.lane / 8) * 16;
}

/// Dots and squares of a lane. Two chains of matrix instructions each: their latency is longer than the loads between.
struct Sums {
  float dot[2][4] = {};
  float square[2][4] = {};
};

/// One piece of 64 columns, and the tiles of its mixture.
using Tiles = uint32_t[2][4];

SILT_DEVICE void add_piece(const Place& at, uint32_t row, int piece, Sums& sums) {
  const uint32_t tiles = row + static_cast<uint32_t>(piece) * (kPieceColumns * 2);
  const uint32_t weights = at.weights + static_cast<uint32_t>(piece * kStepsPerPiece * gpu::kWarpLanes + at.lane) * 16;
#pragma unroll
  for (int group = 0; group < kStepsPerPiece / 2; ++group) {
    uint32_t v[4];
    gpu::load_tiles(v, tiles + static_cast<uint32_t>(group) * 64);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const auto step = static_cast<uint32_t>(2 * group + i);
      gpu::multiply_16(sums.dot[i], gpu::load_shared_16(weights + step * (gpu::kWarpLanes * 16)), v[2 * i],
                       v[2 * i + 1]);
      gpu::multiply_16(sums.square[i], make_uint4(v[2 * i], 0, v[2 * i + 1], 0), v[2 * i], v[2 * i + 1]);
    }
  }
}
SILT_DEVICE void load_mixture_tiles(uint32_t row, int piece, Tiles& tiles) {
#pragma unroll
  for (int group = 0; group < 2; ++group) {
    gpu::load_tiles_transposed(tiles[group], row + static_cast<uint32_t>(piece * 2 + group) * 64);
  }
}

/// A block's sums over its warps, in two halves: seven are left to warp 0 behind the barrier that follows.
SILT_DEVICE void add_up_warps(const Place& at, const Sums& sums) {
  const auto& dot = sums.dot;
  const auto& square = sums.square;
  // High and low parts of the weights; the diagonal is in the lanes whose two columns have their row's number.
  float2 dots =
      make_float2((dot[0][0] + dot[1][0]) + (dot[0][2] + dot[1][2]), (dot[0][1] + dot[1][1]) + (dot[0][3] + dot[1][3]));
  const int row_of_lane = at.lane / 4;
  const bool diagonal = at.lane % 4 == row_of_lane / 2;
  float squares = row_of_lane % 2 == 0 ? square[0][0] + square[1][0] : square[0][1] + square[1][1];

  const int pair = at.warp % kHalfWarps;
  float2* mine = at.sums + pair * kPairs + at.lane;
  float* my_square = reinterpret_cast<float*>(at.sums + pair * kPairs + gpu::kWarpLanes) + row_of_lane;
  if (at.warp >= kHalfWarps) {
    *mine = dots;
    if (diagonal) *my_square = squares;
  }
  __syncthreads();
  if (at.warp < kHalfWarps) {
    *mine = make_float2(dots.x + mine->x, dots.y + mine->y);
    if (diagonal) *my_square += squares;
  }
}

/// Of warp 0 behind that barrier: the block's total, sent to both blocks: to row 0 of the own sums and to the peer. The
/// exchange counts both, so that what its waiters read was written by it. A lane adds up its dots, and the first four a
/// pair of squares.
SILT_DEVICE void send_total(const Place& at, uint32_t exchange, float2* peer) {
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
  __syncwarp();  // row 0 has been read
  if (at.lane == 0) gpu::mbarrier_expect(exchange, kBlocks * kSentBytes);
#pragma unroll
  for (uint32_t i = 0; i < kBlocks; ++i) {
    const uint32_t block = at.rank ^ i;
    const uint32_t there = gpu::remote_address(exchange, block);
    const uint32_t target =
        gpu::remote_address(gpu::shared_address(i == 0 ? at.sums : peer), block) + static_cast<uint32_t>(at.lane) * 8;
    gpu::store_async(target, total[0], there);
    if (second) gpu::store_async(target + gpu::kWarpLanes * 8, total[1], there);
  }
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

/// Mixtures of 32 columns: this lane's query, two columns of each of the four tiles.
SILT_DEVICE void mix_tiles(const uint32_t (&tiles)[4], const Numerators& e, float2 (&mix)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float sum[4] = {};
    gpu::multiply_8(sum, e.high, e.low, tiles[i]);
    mix[i] = make_float2(sum[0] + sum[2], sum[1] + sum[3]);
  }
}

/// Where a block's mixtures of a token and query begin.
template <class Mix>
SILT_DEVICE Mix* mixture_row(const Sweep<Mix>& p, const Place& at, int64_t token, int query) {
  return p.mix + query * p.mix_query_stride + token * p.mix_token_stride + static_cast<int64_t>(at.rank) * at.columns;
}

/// A piece of this lane's query.
template <class Mix>
SILT_DEVICE void store_piece(const Place& at, Mix* out, bool present, int piece, const Tiles& tiles,
                             const Numerators& e) {
#pragma unroll
  for (int group = 0; group < 2; ++group) {
    float2 mix[4];
    mix_tiles(tiles[group], e, mix);
    store_columns(out + piece * kPieceColumns + group * (kPieceColumns / 2), mix, at.lane, present);
  }
}

}  // namespace silt::attn_res_partials_cuda_sm90_tensor
