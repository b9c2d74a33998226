// Sums over a row that lies in the warps of a block and the blocks of a cluster: part of cuda_sm90_direct. Device code.
//
// Two exchanges a token: the statistics of all sources, and the sum of squares of the mixture. The order of additions
// is one for all forms, so that a row has the same bits in each of them:
//   piece  8 columns in order, from zero
//   leaf   pieces l and l + 16; then 16 of those by a butterfly
//   pair   leaf 2q + leaf 2q + 1
//   total  (pairs 0, 2, 4, .. in order, from zero) + (pairs 1, 3, 5, .. in order, from zero)
// A lane with two pieces has l and l + 16 of a leaf, and a warp of such lanes two leaves: it makes a pair by itself.
// Columns beyond the row count as zeros, so that sums need no bounds.
//
// Narrow and lean: a block has two pairs, which it sends to every block of its cluster as one message of 8 bytes. Two:
// a block has the even pairs or the odd ones, and sends their sum. Messages are st.async, counted on a barrier of the
// receiver. One: nothing leaves the block.
#pragma once

#include "attn_res/cuda/cuda_sm90_direct.hpp"
#include "gpu/cluster.hpp"
#include "gpu/warp.hpp"

namespace silt::attn_res_cuda_sm90_direct {

using gpu::kWarpLanes;

template <Form kForm>
constexpr int kPieces = pieces(kForm);
template <Form kForm>
constexpr int kWarps = most_warps(kForm);
template <Form kForm>
constexpr bool kNarrow = kForm == Form::narrow || kForm == Form::lean;
template <Form kForm>
constexpr bool kCluster = kForm != Form::one;

/// Where a thread stands.
struct Place {
  int lane;
  int warp;
  /// Its columns exist. The last warps of a row may be idle, whole or half: they read the last columns once more, so
  /// that no load is conditional, add nothing to the sums and store nothing.
  bool active;
  uint32_t column;  ///< of the first piece; the second is kLeafColumns / 2 further
};

/// The pair that a warp of two pieces a lane has.
template <Form kForm>
SILT_DEVICE int pair_of(int warp) {
  const auto block = static_cast<int>(blockIdx.y);
  return kForm == Form::two ? 2 * warp + block : kForm == Form::lean ? 2 * block + warp : warp;
}

template <Form kForm>
SILT_DEVICE Place place(int d) {
  constexpr int kLanes = kPieces<kForm> == 1 ? kWarpLanes : kWarpLanes / 2;  // of a leaf
  Place at;
  at.lane = gpu::lane_index();
  at.warp = gpu::warp_index();
  const int leaf = kForm == Form::narrow ? static_cast<int>(blockIdx.y) * kWarps<kForm> + at.warp
                                         : 2 * pair_of<kForm>(at.warp) + at.lane / kLanes;
  const auto leaves = static_cast<int>(static_cast<uint32_t>(d) / kLeafColumns);
  at.active = leaf < leaves;
  at.column = static_cast<uint32_t>(min(leaf, leaves - 1) * kLeafColumns + at.lane % kLanes * kPieceColumns);
  return at;
}

/// Shared memory of the two exchanges. Row kValues of an array by value is that of the norm.
template <Form kForm, int kValues>
struct Exchange;

/// The pitches keep eight lanes of a 16-byte load in different banks. Here: every block's two pairs, and the sums of
/// this block's warps.
template <int kValues>
struct NarrowExchange {
  alignas(16) float2 pairs[kValues + 1][kMostBlocks + 2];
  alignas(8) uint64_t barrier[2];
};
template <int kValues>
struct Exchange<Form::narrow, kValues> : NarrowExchange<kValues> {
  float4 warps[kValues + 1];
};
template <int kValues>
struct Exchange<Form::lean, kValues> : NarrowExchange<kValues> {
  float2 warps[kValues + 1];
};
/// Even or odd pairs of a value lie together.
template <int kValues>
struct Exchange<Form::two, kValues> {
  alignas(16) float warps[kValues + 1][kMostPairs / 2 + 4];
  alignas(8) float2 halves[kValues + 1];  ///< as the two blocks sent them
  alignas(8) uint64_t barrier[2];
};
template <int kValues>
struct Exchange<Form::one, kValues> {
  alignas(16) float warps[kValues + 1][kMostPairs + 4];  ///< the even pairs, then the odd ones
};

/// Where this warp's sum of a value goes.
template <Form kForm, int kValues>
SILT_DEVICE float* warp_sum(Exchange<kForm, kValues>& exchange, const Place& at, int value) {
  if constexpr (kNarrow<kForm>) {
    return reinterpret_cast<float*>(&exchange.warps[value]) + at.warp;
  } else if constexpr (kForm == Form::two) {
    return &exchange.warps[value][at.warp];
  } else {
    return &exchange.warps[value][at.warp % 2 * (kMostPairs / 2) + at.warp / 2];
  }
}

/// Half of the pairs, in order.
SILT_DEVICE float sum_of_half(const float* pairs) {
  float total = 0.0F;
#pragma unroll
  for (int first = 0; first < kMostPairs / 2; first += 4) {
    const float4 four = *reinterpret_cast<const float4*>(pairs + first);
    total += four.x;
    total += four.y;
    total += four.z;
    total += four.w;
  }
  return total;
}

/// Zeros for what no warp or block of this row will write. In a cluster the first warp makes them: the arrival of its
/// first thread on the barriers publishes them. Else the block's barrier does.
template <Form kForm, int kValues>
SILT_DEVICE void clear(Exchange<kForm, kValues>& exchange) {
  const uint32_t value = threadIdx.x;
  if (value > kValues) return;
  const auto warps = static_cast<int>(blockDim.x / kWarpLanes);
  if constexpr (kNarrow<kForm>) {
#pragma unroll 1
    for (int block = static_cast<int>(gridDim.y); block < kMostBlocks; ++block)
      exchange.pairs[value][block] = make_float2(0, 0);
  } else if constexpr (kForm == Form::two) {
#pragma unroll 1
    for (int warp = warps; warp < kMostPairs / 2; ++warp) exchange.warps[value][warp] = 0;
  } else {
#pragma unroll 1
    for (int warp = warps; warp < kMostPairs; ++warp) exchange.warps[value][warp % 2 * (kMostPairs / 2) + warp / 2] = 0;
  }
}

/// Barriers that expect what this block will be sent; published by the relaxed arrival that follows.
template <Form kForm, int kValues, bool kNorm>
SILT_DEVICE void open_exchange(Exchange<kForm, kValues>& exchange) {
  if constexpr (kValues == 0 && !kNorm) return;
  clear(exchange);
  if constexpr (kCluster<kForm>) {
    __syncwarp();
    if (threadIdx.x == 0) {
      const uint32_t bytes = gridDim.y * static_cast<uint32_t>(kNarrow<kForm> ? sizeof(float2) : sizeof(float));
      const uint32_t statistics = gpu::shared_address(&exchange.barrier[0]);
      const uint32_t norms = gpu::shared_address(&exchange.barrier[1]);
      gpu::mbarrier_init(statistics, 1);
      gpu::mbarrier_init(norms, 1);
      gpu::mbarrier_init_fence();
      if constexpr (kValues > 0) gpu::mbarrier_expect(statistics, bytes * kValues);
      if constexpr (kNorm) gpu::mbarrier_expect(norms, bytes);
    }
    __syncwarp();
    gpu::cluster_arrive_relaxed();
  }
}

/// Sends this block's part of a value to block `target`; `barrier` is its shared address here.
template <Form kForm, int kValues>
SILT_DEVICE void send(Exchange<kForm, kValues>& exchange, int value, uint32_t target, uint32_t barrier) {
  const uint32_t there = gpu::remote_address(barrier, target);
  if constexpr (kNarrow<kForm>) {
    float2 pairs;
    if constexpr (kForm == Form::narrow) {
      const float4 leaves = exchange.warps[value];
      pairs = make_float2(leaves.x + leaves.y, leaves.z + leaves.w);
    } else {
      pairs = exchange.warps[value];
    }
    gpu::store_async(gpu::remote_address(gpu::shared_address(&exchange.pairs[value][blockIdx.y]), target), pairs,
                     there);
  } else {
    const float half = sum_of_half(exchange.warps[value]);
    const float* mine = &exchange.halves[value].x + blockIdx.y;
    gpu::store_async(gpu::remote_address(gpu::shared_address(mine), target), half, there);
  }
}

/// The total of a value, once everything has arrived.
template <Form kForm, int kValues>
SILT_DEVICE float total_of(const Exchange<kForm, kValues>& exchange, int value) {
  if constexpr (kNarrow<kForm>) {
    float even = 0.0F;
    float odd = 0.0F;
#pragma unroll
    for (int block = 0; block < kMostBlocks; block += 2) {
      const float4 two = *reinterpret_cast<const float4*>(&exchange.pairs[value][block]);
      even += two.x;
      odd += two.y;
      even += two.z;
      odd += two.w;
    }
    return even + odd;
  } else if constexpr (kForm == Form::two) {
    const float2 halves = exchange.halves[value];
    return halves.x + halves.y;
  } else {
    return sum_of_half(exchange.warps[value]) + sum_of_half(exchange.warps[value] + kMostPairs / 2);
  }
}

/// From kValues sums per lane or pair of pieces, folded over the upper half of a leaf's lanes and scattered over the
/// others, to the total `lane` of the whole row in every warp of the cluster.
template <Form kForm, int kValues>
SILT_DEVICE float exchange_statistics(Exchange<kForm, kValues>& exchange, const Place& at, const float* partial) {
  if constexpr (kPieces<kForm> == 1) {
    const gpu::Scattered held = gpu::scattered<kValues>(at.lane);
    if (held.count >= 1) *warp_sum(exchange, at, held.first) = at.active ? partial[0] : 0.0F;
  } else {
    constexpr int kHeld = (kValues + kWarpLanes / 2 - 1) / (kWarpLanes / 2);
    const gpu::Scattered held = gpu::scattered<kValues, kWarpLanes / 4>(at.lane);
    float pairs[kHeld];
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const float leaf = at.active ? partial[i] : 0.0F;
      pairs[i] = leaf + __shfl_xor_sync(gpu::kAllLanes, leaf, kWarpLanes / 2);
    }
    // Both halves of the warp have the same sums: each writes one.
    const int mine = at.lane / (kWarpLanes / 2);
    if (mine < held.count) *warp_sum(exchange, at, held.first + mine) = mine == 0 ? pairs[0] : pairs[kHeld - 1];
  }
  __syncthreads();
  const bool listed = at.lane < kValues;
  if constexpr (kCluster<kForm>) {
    const uint32_t barrier = gpu::shared_address(&exchange.barrier[0]);
    constexpr int kTargets = kForm == Form::two ? 2 : kMostBlocks;
    constexpr int kSenders = kForm == Form::two ? 2 : kWarps<kForm>;  // warp w serves blocks w, w + kSenders, ..
    if (listed) {
#pragma unroll
      for (int first = 0; first < kTargets; first += kSenders) {
        const int target = first + at.warp;
        if (at.warp < kSenders && target < static_cast<int>(gridDim.y))
          send(exchange, at.lane, static_cast<uint32_t>(target), barrier);
      }
    }
    __syncwarp();
    gpu::mbarrier_wait(barrier, 0);
  }
  return listed ? total_of(exchange, at.lane) : 0.0F;
}

/// The sum over the row of one value per lane (its two pieces added up), in every thread.
template <Form kForm, int kValues>
SILT_DEVICE float exchange_norm(Exchange<kForm, kValues>& exchange, const Place& at, float squares) {
  squares = at.active ? squares : 0.0F;
  if constexpr (kPieces<kForm> == 1) {
    squares = gpu::lane_sum(squares);
  } else {
    squares = gpu::lane_sum<kWarpLanes / 2>(squares);
    squares += __shfl_xor_sync(gpu::kAllLanes, squares, kWarpLanes / 2);
  }
  if (at.lane == 0) *warp_sum(exchange, at, kValues) = squares;
  __syncthreads();
  if constexpr (kCluster<kForm>) {
    const uint32_t barrier = gpu::shared_address(&exchange.barrier[1]);
    if (at.warp == 0) {
      if (at.lane < static_cast<int>(gridDim.y)) send(exchange, kValues, static_cast<uint32_t>(at.lane), barrier);
      __syncwarp();
    }
    gpu::mbarrier_wait(barrier, 0);
  }
  return total_of(exchange, kValues);
}

}  // namespace silt::attn_res_cuda_sm90_direct
