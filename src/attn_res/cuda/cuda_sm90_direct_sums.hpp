// Sums over a row that lies in the blocks of a cluster: part of cuda_sm90_direct. Device code.
//
// Two exchanges a token: the statistics of all sources, and the sum of squares of the mixture. Partial sums of warps go
// by st.async into the shared memory of every block, counted on a barrier of the receiver. The order of additions is
// one for all forms: lanes by a butterfly, warps in groups of four, groups in order.
#pragma once

#include "attn_res/cuda/cuda_sm90_direct.hpp"
#include "gpu/cluster.hpp"
#include "gpu/warp.hpp"

namespace silt::attn_res_cuda_sm90_direct {

using gpu::kWarpLanes;

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
  at.lane = gpu::lane_index();
  at.warp = gpu::warp_index();
  const int block_warps = kForm == Form::narrow ? kGroupWarps : static_cast<int>(blockDim.x / kWarpLanes);
  at.warp_of_row = static_cast<int>(blockIdx.y) * block_warps + at.warp;
  at.active = at.warp_of_row < warps_of_row(d);
  const int warp = min(at.warp_of_row, warps_of_row(d) - 1);
  at.column = static_cast<uint32_t>(warp * kWarpColumns + at.lane * kChunkColumns);
  return at;
}

/// Shared memory of the two exchanges: what the blocks send each other. Senders that do not exist count as zeros, so
/// that sums need no bounds. A wide form receives the sums of all warps: a lane reads those of its value 16 bytes at a
/// time, and the pitch keeps eight lanes in different banks.
template <Form kForm, int kValues>
struct Exchange {
  static constexpr int kBlocks = wide_blocks(kForm);
  static constexpr int kPitch = kMostWarps + kGroupWarps;
  alignas(16) float statistics[kValues + 1][kPitch];  ///< the last row: norms
  alignas(8) uint64_t barrier[2];
  SILT_DEVICE float (&norms())[kPitch] { return statistics[kValues]; }
};
template <int kValues>
struct Exchange<Form::narrow, kValues> {
  alignas(16) float statistics[kMostGroups * (kValues + 1)];  ///< [group][value], then the norms
  alignas(16) float block_norms[kGroupWarps];
  float block_statistics[kGroupWarps][kValues + 1];  ///< the warps of this block
  alignas(8) uint64_t barrier[2];
  SILT_DEVICE float* norms() { return statistics + kMostGroups * kValues; }
};

/// Zeros, by the first warp: the arrival of its first thread on the mbarriers publishes them.
template <int kValues>
SILT_DEVICE void clear(Exchange<Form::narrow, kValues>& exchange, int) {
  constexpr int kVectors = kMostGroups * (kValues + 1) / 4;
#pragma unroll
  for (int first = 0; first < kVectors; first += kWarpLanes) {
    const int i = first + static_cast<int>(threadIdx.x);
    if (i < kVectors) reinterpret_cast<float4*>(exchange.statistics)[i] = make_float4(0, 0, 0, 0);
  }
}
template <Form kForm, int kValues>
SILT_DEVICE void clear(Exchange<kForm, kValues>& exchange, int d) {
  if (threadIdx.x > kValues) return;
#pragma unroll 1
  for (int warp = warps_of_row(d) / kGroupWarps * kGroupWarps; warp < kMostWarps; warp += kGroupWarps) {
    *reinterpret_cast<float4*>(&exchange.statistics[threadIdx.x][warp]) = make_float4(0, 0, 0, 0);
  }
}

/// Barriers that expect what this block will be sent; published by the relaxed arrival that follows.
template <Form kForm, int kValues, bool kNorm>
SILT_DEVICE void open_exchange(Exchange<kForm, kValues>& exchange, int d) {
  if constexpr (kValues == 0 && !kNorm) return;
  if (threadIdx.x < kWarpLanes) clear(exchange, d);
  __syncwarp();
  if (threadIdx.x == 0) {
    const auto senders = static_cast<uint32_t>(kForm == Form::narrow ? static_cast<int>(gridDim.y) : warps_of_row(d));
    const uint32_t statistics = gpu::shared_address(&exchange.barrier[0]);
    const uint32_t norms = gpu::shared_address(&exchange.barrier[1]);
    gpu::mbarrier_init(statistics, 1);
    gpu::mbarrier_init(norms, 1);
    gpu::mbarrier_init_fence();
    if constexpr (kValues > 0) gpu::mbarrier_expect(statistics, senders * kValues * sizeof(float));
    if constexpr (kNorm) gpu::mbarrier_expect(norms, senders * sizeof(float));
  }
  __syncwarp();
  gpu::cluster_arrive_relaxed();
}

/// Sums of four in order, then the groups in order: the one order of this kernel.
SILT_DEVICE float sum_of_warps(const float* sums) {
  float total = 0.0F;
#pragma unroll
  for (int group = 0; group < kMostWarps; group += kGroupWarps) {
    const float4 four = *reinterpret_cast<const float4*>(sums + group);
    total += four.x + four.y + four.z + four.w;
  }
  return total;
}

/// From kValues partial sums per warp, scattered over its lanes (one at most), to the total `lane` of the whole row in
/// every warp of the cluster.
template <int kValues>
SILT_DEVICE float exchange_statistics(Exchange<Form::narrow, kValues>& exchange, const Place& at, float partial) {
  const gpu::Scattered held = gpu::scattered<kValues>(at.lane);
  if (held.count >= 1) exchange.block_statistics[at.warp][held.first] = partial;
  __syncthreads();
  const uint32_t barrier = gpu::shared_address(&exchange.barrier[0]);
  const bool listed = at.lane < kValues;
  if (listed) {
    float sum = exchange.block_statistics[0][at.lane];
#pragma unroll
    for (int i = 1; i < kGroupWarps; ++i) sum += exchange.block_statistics[i][at.lane];
    const uint32_t mine =
        gpu::shared_address(&exchange.statistics[blockIdx.y * kValues + static_cast<uint32_t>(at.lane)]);
#pragma unroll
    for (int first = 0; first < kMostGroups; first += kGroupWarps) {  // warp w serves blocks w and w + 4
      const auto target = static_cast<uint32_t>(first + at.warp);
      if (first + at.warp < static_cast<int>(gridDim.y))
        gpu::store_async(gpu::remote_address(mine, target), sum, gpu::remote_address(barrier, target));
    }
  }
  __syncwarp();
  gpu::mbarrier_wait(barrier, 0);
  float total = 0.0F;
  if (listed) {
#pragma unroll
    for (int i = 0; i < kMostGroups; ++i) total += exchange.statistics[i * kValues + at.lane];
  }
  return total;
}

template <Form kForm, int kValues>
SILT_DEVICE float exchange_statistics(Exchange<kForm, kValues>& exchange, const Place& at, float partial) {
  const gpu::Scattered held = gpu::scattered<kValues>(at.lane);
  const uint32_t barrier = gpu::shared_address(&exchange.barrier[0]);
  if (held.count >= 1 && at.active) {
    const uint32_t mine = gpu::shared_address(&exchange.statistics[held.first][at.warp_of_row]);
#pragma unroll
    for (int target = 0; target < exchange.kBlocks; ++target) {
      const auto block = static_cast<uint32_t>(target);
      gpu::store_async(gpu::remote_address(mine, block), partial, gpu::remote_address(barrier, block));
    }
  }
  __syncwarp();
  gpu::mbarrier_wait(barrier, 0);
  if (at.lane >= kValues) return 0.0F;
  return sum_of_warps(exchange.statistics[at.lane]);
}

/// The sum over the row of one value per warp, in every thread.
template <int kValues>
SILT_DEVICE float exchange_norm(Exchange<Form::narrow, kValues>& exchange, const Place& at, float squares) {
  squares = gpu::lane_sum(squares);
  if (at.lane == 0) exchange.block_norms[at.warp] = squares;
  __syncthreads();
  const uint32_t barrier = gpu::shared_address(&exchange.barrier[1]);
  if (at.warp == 0) {
    float sum = exchange.block_norms[0];
#pragma unroll
    for (int i = 1; i < kGroupWarps; ++i) sum += exchange.block_norms[i];
    const auto target = static_cast<uint32_t>(at.lane);
    const uint32_t mine = gpu::shared_address(&exchange.norms()[blockIdx.y]);
    if (at.lane < static_cast<int>(gridDim.y))
      gpu::store_async(gpu::remote_address(mine, target), sum, gpu::remote_address(barrier, target));
    __syncwarp();
  }
  gpu::mbarrier_wait(barrier, 0);
  float total = 0.0F;
#pragma unroll
  for (int i = 0; i < kMostGroups; ++i) total += exchange.norms()[i];
  return total;
}

template <Form kForm, int kValues>
SILT_DEVICE float exchange_norm(Exchange<kForm, kValues>& exchange, const Place& at, float squares) {
  squares = gpu::lane_sum(squares);
  const uint32_t barrier = gpu::shared_address(&exchange.barrier[1]);
  if (at.lane < exchange.kBlocks && at.active) {
    const auto target = static_cast<uint32_t>(at.lane);
    const uint32_t mine = gpu::shared_address(&exchange.norms()[at.warp_of_row]);
    gpu::store_async(gpu::remote_address(mine, target), squares, gpu::remote_address(barrier, target));
  }
  __syncwarp();
  gpu::mbarrier_wait(barrier, 0);
  return sum_of_warps(exchange.norms());
}

}  // namespace silt::attn_res_cuda_sm90_direct
