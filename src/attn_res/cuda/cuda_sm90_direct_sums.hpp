// Sums over a row that lies in the warps of a block and the blocks of a cluster: part of cuda_sm90_direct. Device code.
//
// Two exchanges a token: the statistics of all sources, and the sum of squares of the mixture. The order of additions
// is one for all forms, so that a row has the same bits in each of them:
//   piece  8 columns in order, from zero
//   leaf   pieces l and l + 16; then 16 of those by a butterfly
//   pair   leaf 2q + leaf 2q + 1
//   group  pair 2g + pair 2g + 1: the columns of a narrow block
//   total  (the first half of the groups in order) + (the last half in order) + (the group between, of an odd number)
// A lane with two pieces has l and l + 16 of a leaf, and a warp of such lanes two leaves: it makes a pair by itself.
// Columns beyond the row count as zeros, so that sums need no bounds.
//
// Narrow: a block has a group and sends its sum to every block of its cluster, 4 bytes a value. Two: a block has a half
// and a pair of the group between, and sends both, 8 bytes a value. One: nothing leaves the block. Messages are
// st.async, counted on a barrier of the receiver. The lanes of a warp send them side by side: scattered ones arrive one
// by one, and cost more than 0.1 us at one token.
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
  return kForm == Form::two ? static_cast<int>(blockIdx.y * (blockDim.x / kWarpLanes)) + warp : warp;
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

/// Where the groups of a row stand in its sum.
struct Halves {
  int half;  ///< groups of each half
  bool odd;  ///< there is one between them
};
SILT_DEVICE Halves halves_of(int groups) { return {groups >> 1, (groups & 1) != 0}; }

/// Shared memory of the two exchanges: the sums of this block's warps, and what the blocks sent. Row kValues of an
/// array by value is that of the norm. The pitches keep eight lanes of a 16-byte load in different banks.
template <Form kForm, int kValues>
struct Exchange;

/// Places of a narrow block's sum: the first half, the last half (to the end of its places), the group between.
constexpr int kHalfPlaces = kMostBlocks / 2;
constexpr int kMiddle = kMostBlocks;
template <int kValues>
struct Exchange<Form::narrow, kValues> {
  alignas(16) float norms[kMiddle + 4];
  float4 warps[kValues + 1];
  float values[kMiddle + 1][kValues + 1];
  alignas(8) uint64_t barrier[2];
};
/// Six pairs of a half, then those of the group between: two and one have no more than seven groups.
constexpr int kHalfPairs = 6;
template <int kValues>
struct Exchange<Form::two, kValues> {
  alignas(16) float warps[kValues + 1][kHalfPairs + 6];
  alignas(8) float2 values[2][kValues + 1];  ///< half and pair between
  alignas(8) uint64_t barrier[2];
};
/// First half, group between, last half.
template <int kValues>
struct Exchange<Form::one, kValues> {
  alignas(16) float warps[kValues + 1][2 * kHalfPairs + 8];
};
constexpr int kLastHalf = kHalfPairs + 2;

/// Where a pair stands in the array of its block.
template <Form kForm>
SILT_DEVICE int pair_place(int warp) {
  const auto warps = static_cast<int>(blockDim.x / kWarpLanes);
  if constexpr (kForm == Form::two) {
    const Halves halves = halves_of(warps);  // a block of each pair of blocks has a warp for every group
    const auto skipped = blockIdx.y == 0 || !halves.odd ? 0 : 1;
    const int between = blockIdx.y == 0 ? warps - 1 : 0;
    return halves.odd && warp == between ? kHalfPairs : warp - skipped;
  } else {
    const Halves halves = halves_of((warps + 1) / 2);
    const int first = 2 * halves.half;  // pair behind the first half
    if (warp < first) return warp;
    if (halves.odd && warp < first + 2) return kHalfPairs + warp - first;
    return kLastHalf + warp - first - (halves.odd ? 2 : 0);
  }
}

/// Where this warp's sum of a value goes.
template <Form kForm, int kValues>
SILT_DEVICE float* warp_sum(Exchange<kForm, kValues>& exchange, const Place& at, int value) {
  if constexpr (kForm == Form::narrow) {
    return &exchange.warps[value].x + at.warp;
  } else {
    return &exchange.warps[value][pair_place<kForm>(at.warp)];
  }
}

/// A half of a row from its pairs, and what stands behind them: the group between, as one or two pairs.
struct HalfSum {
  float half;
  float2 between;
};
SILT_DEVICE HalfSum sum_of_half(const float* pairs) {
  const float4 four = *reinterpret_cast<const float4*>(pairs);
  const float4 rest = *reinterpret_cast<const float4*>(pairs + 4);
  return {(four.x + four.y) + (four.z + four.w) + (rest.x + rest.y), make_float2(rest.z, rest.w)};
}

/// Zeros for what no warp or block of this row will write. In a cluster the first warp makes them: the arrival of its
/// first thread on the barriers publishes them. Else the block's barrier does.
template <Form kForm, int kValues>
SILT_DEVICE void clear(Exchange<kForm, kValues>& exchange) {
  const auto value = static_cast<int>(threadIdx.x);
  if (value > kValues) return;
  const auto warps = static_cast<int>(blockDim.x / kWarpLanes);
  if constexpr (kForm == Form::narrow) {
    const Halves halves = halves_of(static_cast<int>(gridDim.y));
    float* places = value < kValues ? &exchange.values[0][value] : exchange.norms;
    const int pitch = value < kValues ? kValues + 1 : 1;
#pragma unroll 1
    for (int place = halves.half; place < kHalfPlaces; ++place) {
      places[place * pitch] = 0;
      places[(kMostBlocks - 1 - place) * pitch] = 0;
    }
    if (!halves.odd) places[kMiddle * pitch] = 0;
  } else {
    const Halves halves = halves_of(kForm == Form::two ? warps : (warps + 1) / 2);
    float* pairs = exchange.warps[value];
#pragma unroll 1
    for (int pair = 2 * halves.half; pair < kHalfPairs; ++pair) {
      pairs[pair] = 0;
      if constexpr (kForm == Form::one) pairs[kLastHalf + pair] = 0;
    }
    if (!halves.odd) {
      pairs[kHalfPairs] = 0;
      if constexpr (kForm == Form::one) pairs[kHalfPairs + 1] = 0;
    }
    // An odd number of pairs: the last group has one.
    if (kForm == Form::one && warps % 2 != 0) pairs[pair_place<kForm>(warps)] = 0;
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
      const uint32_t bytes = gridDim.y * static_cast<uint32_t>(kForm == Form::two ? sizeof(float2) : sizeof(float));
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

/// This block's part of a value.
template <int kValues>
SILT_DEVICE float part_of(const Exchange<Form::narrow, kValues>& exchange, int value) {
  const float4 leaves = exchange.warps[value];
  return (leaves.x + leaves.y) + (leaves.z + leaves.w);
}
template <int kValues>
SILT_DEVICE float2 part_of(const Exchange<Form::two, kValues>& exchange, int value) {
  const HalfSum sum = sum_of_half(exchange.warps[value]);
  return make_float2(sum.half, sum.between.x);
}

/// Where the blocks of the cluster take this block's part of a value: the address here.
template <bool kOfNorm, int kValues>
SILT_DEVICE uint32_t inbox(const Exchange<Form::narrow, kValues>& exchange, int value) {
  const auto block = static_cast<int>(blockIdx.y);
  const auto blocks = static_cast<int>(gridDim.y);
  const Halves halves = halves_of(blocks);
  const int place = block < halves.half                  ? block
                    : halves.odd && block == halves.half ? kMiddle
                                                         : kMostBlocks - blocks + block;
  return gpu::shared_address(kOfNorm ? &exchange.norms[place] : &exchange.values[place][value]);
}
template <bool kOfNorm, int kValues>
SILT_DEVICE uint32_t inbox(const Exchange<Form::two, kValues>& exchange, int value) {
  return gpu::shared_address(&exchange.values[blockIdx.y][value]);
}

/// The same in a block of the cluster (the last, if there is no such block), with the barrier that counts it.
struct Target {
  uint32_t inbox;
  uint32_t barrier;
};
template <bool kOfNorm, Form kForm, int kValues>
SILT_DEVICE Target target_of(const Exchange<kForm, kValues>& exchange, int value, int block) {
  const uint32_t rank = min(static_cast<uint32_t>(block), gridDim.y - 1);
  return {gpu::remote_address(inbox<kOfNorm>(exchange, value), rank),
          gpu::remote_address(gpu::shared_address(&exchange.barrier[kOfNorm ? 1 : 0]), rank)};
}

/// The total of a value, once everything has arrived.
template <bool kOfNorm, int kValues>
SILT_DEVICE float total_of(const Exchange<Form::narrow, kValues>& exchange, int value) {
  float sums[kMiddle + 1];
  if constexpr (kOfNorm) {
    *reinterpret_cast<float4*>(sums) = *reinterpret_cast<const float4*>(exchange.norms);
    *reinterpret_cast<float4*>(sums + 4) = *reinterpret_cast<const float4*>(exchange.norms + 4);
    sums[kMiddle] = exchange.norms[kMiddle];
  } else {
#pragma unroll
    for (int place = 0; place <= kMiddle; ++place) sums[place] = exchange.values[place][value];
  }
  const float first = sums[0] + sums[1] + sums[2] + sums[3];
  const float last = sums[4] + sums[5] + sums[6] + sums[7];
  return first + last + sums[kMiddle];
}
template <bool kOfNorm, int kValues>
SILT_DEVICE float total_of(const Exchange<Form::two, kValues>& exchange, int value) {
  const float2 first = exchange.values[0][value];
  const float2 last = exchange.values[1][value];
  return first.x + last.x + (first.y + last.y);
}
template <bool kOfNorm, int kValues>
SILT_DEVICE float total_of(const Exchange<Form::one, kValues>& exchange, int value) {
  const HalfSum first = sum_of_half(exchange.warps[value]);
  const HalfSum last = sum_of_half(exchange.warps[value] + kLastHalf);
  return first.half + last.half + (first.between.x + first.between.y);
}

/// From kValues sums per lane or pair of pieces, folded over the upper half of a leaf's lanes and scattered over the
/// others, to the total `lane` of the whole row in every warp of the cluster.
template <Form kForm, int kValues>
SILT_DEVICE float exchange_statistics(Exchange<kForm, kValues>& exchange, const Place& at, const float* partial) {
  // Warp w serves blocks w, w + kSenders, ..; a lane a value. Narrow blocks make the addresses before their
  // barrier; two pieces a lane leave no registers for that.
  constexpr int kSenders = kForm == Form::narrow ? kWarps<kForm> : 2;
  constexpr int kRounds = kForm == Form::narrow ? kMostBlocks / kSenders : 1;
  const bool listed = at.lane < kValues;
  Target targets[kRounds] = {};
  if constexpr (kForm == Form::narrow) {
#pragma unroll
    for (int i = 0; i < kRounds; ++i) targets[i] = target_of<false>(exchange, at.lane, i * kSenders + at.warp);
  }
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
  if constexpr (kCluster<kForm>) {
    if (listed && (kForm == Form::narrow || at.warp < kSenders)) {
      if constexpr (kForm == Form::two) targets[0] = target_of<false>(exchange, at.lane, at.warp);
      const auto part = part_of(exchange, at.lane);
#pragma unroll
      for (int i = 0; i < kRounds; ++i) {
        if (kForm == Form::two || i * kSenders + at.warp < static_cast<int>(gridDim.y))
          gpu::store_async(targets[i].inbox, part, targets[i].barrier);
      }
    }
    __syncwarp();
    gpu::mbarrier_wait(gpu::shared_address(&exchange.barrier[0]), 0);
  }
  return listed ? total_of<false>(exchange, at.lane) : 0.0F;
}

/// The sum over the row of one value per lane (its two pieces added up), in every thread.
template <Form kForm, int kValues>
SILT_DEVICE float exchange_norm(Exchange<kForm, kValues>& exchange, const Place& at, float squares) {
  Target target = {};
  if constexpr (kCluster<kForm>) {
    if (at.warp == 0) target = target_of<true>(exchange, kValues, at.lane);
  }
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
    if (at.warp == 0) {
      if (at.lane < static_cast<int>(gridDim.y))
        gpu::store_async(target.inbox, part_of(exchange, kValues), target.barrier);
      __syncwarp();
    }
    gpu::mbarrier_wait(gpu::shared_address(&exchange.barrier[1]), 0);
  }
  return total_of<true>(exchange, kValues);
}

}  // namespace silt::attn_res_cuda_sm90_direct
