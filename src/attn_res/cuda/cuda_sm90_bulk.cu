// What: attn_res (contract.md) on Hopper and Blackwell with whole rows by bulk copy through a ring in shared memory.
//
// When: bf16, 0 to 8 blocks, D a multiple of 8 up to 8192, every row and weight aligned to 16 bytes; any strides, with
// or without delta, slot write and output norm (cuda_sm90_bulk.hpp).
//
// Plan: persistent blocks, tokens in turns. One producer warp issues the rows of token after token in order (bank,
// prefix, delta) into a ring of as many rows as fit; up to 16 consumer warps take them. Consumers: statistics of each
// row as it lands, p, softmax (every warp for itself from the sums of all), mixture from the ring, norm, store.
//
// Data path: a row is one bulk copy. full[slot] makes it visible to the consumers; they read it for the statistics,
// and the bank rows once more for the mixture. free[slot] counts the consumer warps that are done with it; each thread
// orders its reads before the next copy into the slot (copy_engine_fence). p stays in registers between the passes. The
// named barriers of the consumers publish the sums of the warps, double-buffered by the parity of the token, so that no
// barrier is needed to reuse them.
//
// Dependent launch: the producer waits before the first row that may not be read early; in late order those are the
// rows behind the stable ones, of the first token. Consumers wait before everything but the weights, and trigger.
//
// Bytes: 2*D*(nb + 1 + 2*delta + write + 1) per token (cost.cpp); weights stay in L2.
//
// Roofline: D = 7168, nb = 8, T = 8192 on H200: 333 us at the speed of a device copy. A prototype of this plan measured
// 328-335 us (cuda_sm90_direct: 319) and was 1.1-1.5 us slower at small T: barriers, the latency of bulk copies and
// whole rows. So it stands behind the direct form. On sm_100, where public kernels for this operator use bulk copies,
// neither has been measured; the order stays the one that was measured.
//
// Rounding: fp32, one rounding at p and one at the output. Order of a sum: columns of a thread, lanes by butterfly,
// warps one after the other; it depends on D alone.
//
// Tried: issuing rows from many warps (they all land last: +1.3 us at one token per SM), evict-first copies (+9 %).
#include <utility>

#include "attn_res/cuda/cuda_sm90_bulk.hpp"
#include "attn_res/cuda/rows.hpp"
#include "device/facts.hpp"
#include "gpu/cluster.hpp"
#include "gpu/launch.hpp"
#include "gpu/pdl.hpp"

namespace silt::attn_res_cuda_sm90_bulk {
namespace {

using namespace gpu;        // NOLINT(google-build-using-namespace): the vocabulary this file is written in
using attn_res_cuda::Rows;  // the arguments

constexpr int kMostWarps = kMostConsumers / kWarpLanes;
constexpr int kStatisticsBarrier = 1;
constexpr int kNormBarrier = 2;

template <int kN>
struct Shared {
  float statistics[2][kMostWarps][2 * (kN + 1)];
  float norms[2][kMostWarps];
  alignas(8) uint64_t full[kMostSlots];
  alignas(8) uint64_t free[kMostSlots];
};

/// Position in the ring; the parity of a slot's barriers flips at every turn.
struct Cursor {
  int slot = 0;
  uint32_t turn = 0;
  int slots;

  SILT_DEVICE explicit Cursor(int count) : slots(count) {}
  SILT_DEVICE void advance() {
    if (++slot == slots) {
      slot = 0;
      turn ^= 1;
    }
  }
};

/// The producer: one thread, all rows of this block's tokens in order.
template <int kN, bool kLate>
SILT_DEVICE void produce(const Rows& p, Shared<kN>& shared, uint32_t ring, int slots) {
  const auto bytes = static_cast<uint32_t>(p.d) * 2;
  const int rows = kN + 1 + (p.delta != nullptr ? 1 : 0);
  bool waited = false;
  Cursor at(slots);
  for (int64_t token = blockIdx.x; token < p.t; token += gridDim.x) {
    for (int i = 0; i < rows; ++i) {
      if (!waited && !(kLate && i < kN && i < p.stable)) {
        dependency_wait();
        waited = true;
      }
      const uint16_t* row = i < kN    ? p.blocks + token * p.block_token_stride + i * p.block_slot_stride
                            : i == kN ? p.prefix + token * p.prefix_stride
                                      : p.delta + token * p.delta_stride;
      mbarrier_wait(shared_address(&shared.free[at.slot]), at.turn ^ 1);  // the first turn finds every slot free
      const uint32_t full = shared_address(&shared.full[at.slot]);
      mbarrier_expect(full, bytes);
      bulk_load(ring + static_cast<uint32_t>(at.slot) * bytes, row, bytes, full);
      at.advance();
    }
  }
}

/// A consumer thread's columns: chunk k starts at column(k).
struct Lanes {
  int lane;
  int warp;
  int warps;
  int chunks;  ///< of a row

  SILT_DEVICE int chunk(int k) const { return static_cast<int>(threadIdx.x) + k * warps * kWarpLanes; }
  SILT_DEVICE bool active(int k) const { return chunk(k) < chunks; }
  SILT_DEVICE int column(int k) const { return chunk(k) * kChunkColumns; }
};

/// Frees a slot for this warp.
SILT_DEVICE void release(uint64_t& free_slot, int lane) {
  copy_engine_fence();
  __syncwarp();
  if (lane == 0) mbarrier_arrive(shared_address(&free_slot));
}

SILT_DEVICE void read_row(uint4 (&row)[kChunks], const Lanes& at, uint32_t slot) {
#pragma unroll
  for (int k = 0; k < kChunks; ++k) {
    row[k] = make_uint4(0, 0, 0, 0);
    if (at.active(k)) row[k] = load_shared_16(slot + static_cast<uint32_t>(at.chunk(k)) * 16);
  }
}

template <int kN>
SILT_DEVICE float row_statistics(const uint4 (&row)[kChunks], const float (&w)[kChunks][8], int lane) {
  float dot = 0.0F;
  float squares = 0.0F;
#pragma unroll
  for (int k = 0; k < kChunks; ++k) attn_res_cuda::add_statistics(row[k], w[k], dot, squares);
  return fold_pair(dot, squares, lane);
}

/// Waits for the rows behind the bank and makes p, stored to prefix and slot; both slots are freed.
template <int kN>
SILT_DEVICE void take_prefix(const Rows& p, Shared<kN>& shared, uint32_t ring, uint32_t bytes, Cursor& at,
                             const Lanes& lanes, int64_t token, uint4 (&own)[kChunks]) {
  const auto slot = [&] { return ring + static_cast<uint32_t>(at.slot) * bytes; };
  mbarrier_wait(shared_address(&shared.full[at.slot]), at.turn);
  read_row(own, lanes, slot());
  release(shared.free[at.slot], lanes.lane);
  at.advance();
  if (p.delta != nullptr) {
    uint4 delta[kChunks];
    mbarrier_wait(shared_address(&shared.full[at.slot]), at.turn);
    read_row(delta, lanes, slot());
    release(shared.free[at.slot], lanes.lane);
    at.advance();
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
      own[k] = add_bf16(own[k], delta[k]);
      if (lanes.active(k)) store_16(p.prefix + token * p.prefix_stride + lanes.column(k), own[k]);
    }
  }
#pragma unroll
  for (int k = 0; k < kChunks; ++k) {
    if (p.written != nullptr && lanes.active(k)) {
      store_16(p.written + token * p.block_token_stride + lanes.column(k), own[k]);
    }
  }
}

/// The mixture of one token in fp32. `bank` is where its first row lies in the ring.
template <int kN>
SILT_DEVICE void mixture(Shared<kN>& shared, uint32_t ring, uint32_t bytes, Cursor bank, const Lanes& lanes,
                         float weight, const uint4 (&own)[kChunks], float (&mix)[kChunks][8]) {
#pragma unroll
  for (int k = 0; k < kChunks; ++k) {
#pragma unroll
    for (float& m : mix[k]) m = 0.0F;
  }
#pragma unroll
  for (int i = 0; i < kN; ++i) {
    uint4 row[kChunks];
    read_row(row, lanes, ring + static_cast<uint32_t>(bank.slot) * bytes);
    release(shared.free[bank.slot], lanes.lane);
    bank.advance();
    const float e = __shfl_sync(kAllLanes, weight, i);
#pragma unroll
    for (int k = 0; k < kChunks; ++k) attn_res_cuda::add_scaled(row[k], e, mix[k]);
  }
  const float e = __shfl_sync(kAllLanes, weight, kN);
#pragma unroll
  for (int k = 0; k < kChunks; ++k) attn_res_cuda::add_scaled(own[k], e, mix[k]);
}

/// Sums of the norm over the block, and the output row.
template <int kN, bool kNorm>
SILT_DEVICE void store_output(const Rows& p, Shared<kN>& shared, int parity, const Lanes& lanes, int64_t token,
                              const float (&mix)[kChunks][8]) {
  uint16_t* output = p.output + token * p.output_stride;
  float scale = 1.0F;
  if constexpr (kNorm) {
    float squares = 0.0F;
#pragma unroll
    for (int k = 0; k < kChunks; ++k) squares += attn_res_cuda::sum_of_squares(mix[k]);
    squares = lane_sum(squares);
    if (lanes.lane == 0) shared.norms[parity][lanes.warp] = squares;
    named_barrier<kNormBarrier>(lanes.warps * kWarpLanes);
    float total = 0.0F;
    for (int w = 0; w < lanes.warps; ++w) total += shared.norms[parity][w];
    scale = rsqrtf(fmaf(total, p.inverse_d, p.output_norm_eps));
  }
#pragma unroll
  for (int k = 0; k < kChunks; ++k) {
    if (!lanes.active(k)) continue;
    if constexpr (kNorm) {
      const uint4 g = load_16<Load::constant>(p.output_norm_weight + lanes.column(k));
      store_16(output + lanes.column(k), attn_res_cuda::normalised(mix[k], scale, g));
    } else {
      store_16(output + lanes.column(k), pack_bf16(mix[k]));
    }
  }
}

template <int kN, bool kNorm>
SILT_DEVICE void consume(const Rows& p, Shared<kN>& shared, uint32_t ring, int slots, const Lanes& lanes) {
  constexpr int kValues = 2 * (kN + 1);
  const auto bytes = static_cast<uint32_t>(p.d) * 2;
  float w[kChunks][8] = {};
  if constexpr (kN > 0) {
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
      if (!lanes.active(k)) continue;
      attn_res_cuda::weight_product(load_16<Load::plain>(p.norm_weight + lanes.column(k)),
                                    load_16<Load::plain>(p.qk_weight + lanes.column(k)), w[k]);
    }
  }
  dependency_wait();
  trigger_dependents();
  const Scattered held = scattered<kValues>(lanes.lane);
  Cursor at(slots);
  int parity = 0;
  for (int64_t token = blockIdx.x; token < p.t; token += gridDim.x, parity ^= 1) {
    const Cursor bank = at;
    float partial[kN + 1];
    uint4 own[kChunks];
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      uint4 row[kChunks];
      mbarrier_wait(shared_address(&shared.full[at.slot]), at.turn);
      read_row(row, lanes, ring + static_cast<uint32_t>(at.slot) * bytes);
      partial[i] = row_statistics<kN>(row, w, lanes.lane);
      at.advance();
    }
    take_prefix(p, shared, ring, bytes, at, lanes, token, own);
    float mix[kChunks][8];
    if constexpr (kN > 0) {
      partial[kN] = row_statistics<kN>(own, w, lanes.lane);
      reduce_scatter<kN + 1, 8>(partial, lanes.lane);
      if (held.count >= 1) shared.statistics[parity][lanes.warp][held.first] = partial[0];
      named_barrier<kStatisticsBarrier>(lanes.warps * kWarpLanes);
      float total = 0.0F;
      if (lanes.lane < kValues) {
        for (int i = 0; i < lanes.warps; ++i) total += shared.statistics[parity][i][lanes.lane];
      }
      const float weight = attn_res_cuda::softmax_weight<kN + 1>(total, lanes.lane, p.inverse_d, p.eps);
      mixture(shared, ring, bytes, bank, lanes, weight, own, mix);
    } else {
#pragma unroll
      for (int k = 0; k < kChunks; ++k) unpack_bf16(own[k], mix[k]);
    }
    store_output<kN, kNorm>(p, shared, parity, lanes, token, mix);
  }
}

template <int kN, bool kNorm, bool kLate>
__global__ void __launch_bounds__(kMostConsumers + kWarpLanes, blocks_per_processor(kN))
    attn_res_cuda_sm90_bulk(const Rows p, const int slots) {
  extern __shared__ __align__(128) unsigned char ring[];
  __shared__ Shared<kN> shared;
  Lanes lanes;
  lanes.lane = lane_index();
  lanes.warp = warp_index();
  lanes.warps = static_cast<int>(blockDim.x / kWarpLanes) - 1;
  lanes.chunks = static_cast<int>(static_cast<uint32_t>(p.d) / kChunkColumns);
  if (static_cast<int>(threadIdx.x) < slots) {
    mbarrier_init(shared_address(&shared.full[threadIdx.x]), 1);
    mbarrier_init(shared_address(&shared.free[threadIdx.x]), static_cast<uint32_t>(lanes.warps));
    mbarrier_init_fence();
    copy_engine_fence();
  }
  __syncthreads();
  if (lanes.warp == lanes.warps) {
    if (lanes.lane == 0) produce<kN, kLate>(p, shared, shared_address(ring), slots);
  } else {
    consume<kN, kNorm>(p, shared, shared_address(ring), slots, lanes);
  }
}

using Work = void (*)(Rows, int);

/// What is instantiated: order, norm, blocks.
struct Works {
  Work of[2][2][kMostSources + 1];
};
template <int... kN>
constexpr Works works(std::integer_sequence<int, kN...>) {
  return {{{{attn_res_cuda_sm90_bulk<kN, false, false>...}, {attn_res_cuda_sm90_bulk<kN, true, false>...}},
           {{attn_res_cuda_sm90_bulk<kN, false, true>...}, {attn_res_cuda_sm90_bulk<kN, true, true>...}}}};
}
constexpr Works kWorks = works(std::make_integer_sequence<int, kMostSources + 1>{});

}  // namespace

Status launch(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch) {
  constexpr KernelName kName = {"attn_res", "cuda_sm90_bulk"};
  static DeviceSetup setups[2][2][kMostSources + 1];
  const DeviceFacts* facts = nullptr;
  if (const Status status = facts_of(args.prefix.device, &facts); !status.ok()) return status;
  const Plan plan = choose_plan(problem, *facts);
  const bool late = launch.pdl == Pdl::late;
  const Work work = kWorks.of[late][problem.norm][problem.n];
  LaunchShape shape;
  shape.grid = plan.blocks;
  shape.block = consumers(problem.d) + kWarpLanes;
  shape.shared_bytes = static_cast<size_t>(plan.shared_bytes);
  shape.dependent = launch.pdl != Pdl::off;
  DeviceSetup& setup = setups[late][problem.norm][problem.n];
  const Status status =
      setup.allow_shared(kName, reinterpret_cast<const void*>(work), args.prefix.device.index, shape.shared_bytes);
  if (!status.ok()) return status;
  return gpu::launch(kName, work, shape, args.prefix.device, launch, attn_res_cuda::make_rows(problem, args),
                     plan.slots);
}

}  // namespace silt::attn_res_cuda_sm90_bulk
