// What: kda_decode (contract.md) in one launch, one block or one cluster of blocks per (row, head).
//
// When: sm_90a, sm_100f; bf16 activations, state fp32 or bf16, any head count; x, raw_gate and history aligned to 8
// bytes, state and weights to 16.
//
// Plan: grid B * H on x, heads fastest, a cluster along y, not persistent. 128 threads of a block take four channels
// each of q, k, v and the decay; in a cluster they form one group per peer, and every group sends the block's slice to
// its peer. A half-warp owns whole rows of the state. Two one-way hops in a cluster (q k v decay; outputs), and one
// cluster barrier, in the prologue.
//
// Data path: slot index; weights (16 bytes a thread); L2 prefetch of this step's inputs; state (registers: 16-byte
// loads; bulk: one copy per warp into shared memory, completing on the warp's own barrier); history (8 bytes); cluster
// wait; dependency wait; trigger; x, gates, beta. So state, history, slot index and weights must not be written by the
// directly preceding kernel. The trigger stands behind the wait: everything before the predecessor is then complete, so
// a launch that comes back to a state after two others finds it written. Barriers: vectors_ready (q, k, v, decay of the
// head are here), outputs_ready (all 128 outputs are here: so every block had all its vectors, so every group of every
// block has used its history, and one owner may shift it), state_ready (rows of one warp are here).
//
// Bytes: 137,218 per (row, head) with fp32 state, 71,682 with bf16 (cost.cpp).
//
// Roofline: H = 12, B = 256 on an H200: 421.5 MB, 98 us at the copy rate of 4.29 TB/s. The prototype took 107.3 us
// there and 2.10 us at B = 1, where the empty kernel takes 0.7 (docs/ladder/kda_decode_cuda.md).
//
// Rounding: fp32 until the stored state and the output. Lanes, column map and trees are the same in every schedule
// (delta_rule.cuh), so a row's bits depend on the state type and on nothing else.
//
// Tried in the prototype, and worse: persistent blocks with a ring of three stages (4-6 % at large B * H), clusters of
// 8 and 16, convolution repeated in every block of a cluster, trigger at entry (wrong), old taps folded before the
// wait (0.3 us), 512 threads (spills). Here: history and output addresses kept in registers over the rows (spills;
// they are made again instead), state addresses as index expressions (one register pair per store; the opaque base
// keeps them immediate offsets), warps that take row pairs in turn so that a block's accesses of one moment lie side by
// side (0.6 % at most).
#pragma once

#include "gpu/cluster.hpp"
#include "gpu/exchange.hpp"
#include "gpu/memory.hpp"
#include "gpu/pdl.hpp"
#include "kda/decode/cuda/forms.hpp"
#include "kda/decode/cuda/phases.cuh"

namespace silt::kda_decode_cuda_sm90_heads {

using namespace kda_decode_cuda;

constexpr int kChannelThreads = 4 * kHeadDim / 4;  // q, k, v, decay

template <class State, Form kForm>
struct Sizes {
  static constexpr int kWarps = kForm.threads / 32;
  static constexpr int kRows = kHeadDim / kForm.cluster;  // of a block
  static constexpr int kRowsPerWarp = kRows / kWarps;
  static constexpr int kRowsPerHalf = kRowsPerWarp / 2;
  static constexpr int kPasses = kRowsPerHalf / kForm.rows_per_pass;
  static constexpr int kWarpElements = kRowsPerWarp * kHeadDim;
  static constexpr int kGroupThreads = kChannelThreads / kForm.cluster;  // four channels each of a block's slice
  static constexpr int kPartThreads = kGroupThreads / 4;
  static constexpr int kFirstOutputThread = kForm.threads > kChannelThreads ? kChannelThreads : 0;
  static_assert(kPasses * kForm.rows_per_pass * 2 * kWarps == kRows);
  static_assert(kForm.threads >= kChannelThreads && kFirstOutputThread + kRows <= kForm.threads);
};

/// The head of the dynamic shared memory; rows of the bulk form follow, 128-byte aligned.
template <class State, Form kForm>
struct alignas(128) Shared {
  float4 q[kHeadDim / 4];
  float4 k[kHeadDim / 4];
  float4 decay[kHeadDim / 4];
  float4 value[Sizes<State, kForm>::kRows / 4];
  float4 output[kHeadDim / 4];
  float factor[Sizes<State, kForm>::kRows];
  uint64_t vectors_ready;
  uint64_t outputs_ready;
  uint64_t state_ready[Sizes<State, kForm>::kWarps];
};

/// Where a thread stands.
template <class State, Form kForm>
struct Place {
  using Z = Sizes<State, kForm>;
  int rank;  // of the block in its cluster
  int row;   // of the batch
  int head;
  int warp;
  int half;        // of the warp
  int lane;        // of the half-warp
  int peer;        // whom the thread's group sends to
  int part;        // q, k, v or the decay
  int column;      // first of four
  bool works;      // has channels; v goes to the own block only
  int output_row;  // of the block, where it is one
  bool outputs;

  SILT_DEVICE explicit Place(const Params& p) : Place(p, static_cast<int>(threadIdx.x), static_cast<int>(blockIdx.x)) {}
  /// The same again, from scratch: the bulk forms have no registers to keep it over the rows.
  SILT_DEVICE static Place again(const Params& p) {
    int thread = static_cast<int>(threadIdx.x);
    int item = static_cast<int>(blockIdx.x);
    gpu::forget_origin(thread);
    gpu::forget_origin(item);
    return Place(p, thread, item);
  }
  SILT_DEVICE Place(const Params& p, int thread, int item) {
    rank = kForm.cluster == 1 ? 0 : static_cast<int>(blockIdx.y);
    row = p.heads == 1 ? item : static_cast<int>(__umulhi(static_cast<uint32_t>(item), p.heads_reciprocal));
    head = item - row * p.heads;
    warp = thread / 32;
    half = thread / kLanesPerRow % 2;
    lane = thread % kLanesPerRow;
    peer = thread / Z::kGroupThreads;
    part = thread % Z::kGroupThreads / Z::kPartThreads;
    column = rank * Z::kRows + thread % Z::kPartThreads * 4;
    works = thread < kChannelThreads && (part != kValuePart || peer == rank);
    output_row = thread - Z::kFirstOutputThread;
    outputs = output_row >= 0 && output_row < Z::kRows;
  }
  SILT_DEVICE uint16_t* output(const Params& p) const {
    return p.output + row * p.output_stride + (head * kHeadDim + rank * Z::kRows + output_row);
  }
  /// Row of the block that is number `i` of this half-warp.
  SILT_DEVICE int row_of(int i) const { return warp * Z::kRowsPerWarp + 2 * i + half; }
};

template <class State, Form kForm>
SILT_DEVICE void init_barriers(Shared<State, kForm>& shared) {
  if constexpr (kForm.cluster > 1) {
    if (threadIdx.x == 0) {
      const uint32_t vectors_ready = gpu::shared_address(&shared.vectors_ready);
      const uint32_t outputs_ready = gpu::shared_address(&shared.outputs_ready);
      gpu::mbarrier_init(vectors_ready, 1);
      gpu::mbarrier_init(outputs_ready, 1);
      gpu::mbarrier_init_fence();
      gpu::mbarrier_expect(vectors_ready,
                           sizeof(shared.q) + sizeof(shared.k) + sizeof(shared.decay) + sizeof(shared.value));
      gpu::mbarrier_expect(outputs_ready, sizeof(shared.output));
    }
    gpu::cluster_arrive_relaxed();
  }
  if constexpr (kForm.bulk) {
    if (threadIdx.x % 32 == 0) {
      gpu::mbarrier_init(gpu::shared_address(&shared.state_ready[threadIdx.x / 32]), 1);
      gpu::mbarrier_init_fence();
    }
    __syncwarp();
  }
}

/// The state rows of a warp, held in registers or staged in shared memory.
template <class State, Form kForm>
struct WarpRows {
  using Z = Sizes<State, kForm>;
  static constexpr int kRowStep = 2 * kHeadDim;  // to the next row of a half-warp
  static constexpr int kVectorStep = kLanesPerRow * 16;
  static constexpr gpu::Hint kHint = kForm.evict ? gpu::Hint::evict_first : gpu::Hint::none;
  State* memory;        // bulk: the warp's first row; else this lane's share of the half-warp's first row
  uint32_t staged = 0;  // the lane's share there
  StoredShare<State> held[kForm.bulk ? 1 : Z::kRowsPerHalf];

  SILT_DEVICE WarpRows(const Params& p, const Place<State, kForm>& at, int slot, const void* staging) {
    const int share = at.half * kHeadDim + at.lane * kVectorElements<State>;
    memory = static_cast<State*>(p.state) + slot * p.state_slot_stride +
             (at.head * kStateElements + (at.rank * Z::kRows + at.warp * Z::kRowsPerWarp) * kHeadDim);
    if constexpr (kForm.bulk) {
      staged = gpu::shared_address(static_cast<const State*>(staging) + at.warp * Z::kWarpElements + share);
    } else {
      memory += share;
    }
    gpu::forget_origin(memory);
  }
  SILT_DEVICE void fetch(const Params& p, const uint64_t* ready) {
    if constexpr (kForm.bulk) {
      constexpr uint32_t kBytes = Z::kWarpElements * sizeof(State);
      if (threadIdx.x % 32 != 0) return;  // lane 0: its share is where the warp's rows start
      const uint32_t barrier = gpu::shared_address(ready);
      gpu::mbarrier_expect(barrier, kBytes);
      if (p.evict_first) {
        gpu::bulk_load(staged, memory, kBytes, barrier, gpu::evict_first_policy());
      } else {
        gpu::bulk_load(staged, memory, kBytes, barrier);
      }
    } else {
#pragma unroll
      for (int i = 0; i < Z::kRowsPerHalf; ++i) held[i] = load_share<true, kHint>(memory + i * kRowStep);
    }
  }
  SILT_DEVICE RowShare get(int i) const {
    if constexpr (kForm.bulk) {
      StoredShare<State> stored;
#pragma unroll
      for (int v = 0; v < StoredShare<State>::kVectors; ++v) stored.vector[v] = gpu::load_shared_16(place(i, v));
      return widen(stored);
    } else {
      return widen(held[i]);
    }
  }
  SILT_DEVICE void put(int i, const RowShare& share) const {
    const StoredShare<State> stored = narrow<State>(share);
    if constexpr (kForm.bulk) {
#pragma unroll
      for (int v = 0; v < StoredShare<State>::kVectors; ++v) gpu::store_shared_16(place(i, v), stored.vector[v]);
    } else {
      store_share<true, kHint>(memory + i * kRowStep, stored);
    }
  }
  /// Bulk form: the rows of a pass, written by the whole warp, leave by one copy.
  SILT_DEVICE void send(const Params& p, int pass) const {
    if constexpr (kForm.bulk) {
      constexpr int kElements = kForm.rows_per_pass * kRowStep;
      constexpr uint32_t kBytes = kElements * sizeof(State);
      gpu::copy_engine_fence();
      __syncwarp();
      if (threadIdx.x % 32 != 0) return;
      if (p.evict_first) {
        gpu::bulk_store(memory + pass * kElements, staged + pass * kBytes, kBytes, gpu::evict_first_policy());
      } else {
        gpu::bulk_store(memory + pass * kElements, staged + pass * kBytes, kBytes);
      }
      gpu::bulk_commit();
    }
  }

 private:
  SILT_DEVICE uint32_t place(int i, int vector) const {
    return staged + static_cast<uint32_t>(i * kRowStep * static_cast<int>(sizeof(State)) + vector * kVectorStep);
  }
};

/// Four channels to the block itself, or to the group's peer.
template <class State, Form kForm>
SILT_DEVICE void publish_channels(Shared<State, kForm>& shared, const Place<State, kForm>& at, float4 v) {
  float4* target = at.part == kGatePart ? shared.decay : at.part == 0 ? shared.q : shared.k;
  target += at.column / 4;
  if (at.part == kValuePart) target = shared.value + threadIdx.x % Sizes<State, kForm>::kPartThreads;
  if constexpr (kForm.cluster == 1) {
    *target = v;
  } else {
    gpu::store_async(gpu::remote_address(gpu::shared_address(target), at.peer), v,
                     gpu::remote_address(gpu::shared_address(&shared.vectors_ready), at.peer));
  }
}

/// An output to every block of the cluster; the lanes that hold copies of it share the peers.
template <class State, Form kForm>
SILT_DEVICE void publish_output(Shared<State, kForm>& shared, const Place<State, kForm>& at, int first,
                                const RowOutput& output) {
  if (!output.valid) return;
  float* target =
      reinterpret_cast<float*>(shared.output) + at.rank * Sizes<State, kForm>::kRows + at.row_of(first + output.index);
  if constexpr (kForm.cluster == 1) {
    if (output.copy == 0) *target = output.value;
  } else {
#pragma unroll
    for (int to = output.copy; to < kForm.cluster; to += kCopiesOfOutput<kForm.rows_per_pass>) {
      gpu::store_async(gpu::remote_address(gpu::shared_address(target), to), output.value,
                       gpu::remote_address(gpu::shared_address(&shared.outputs_ready), to));
    }
  }
}

/// The addresses are made again from a value the compiler cannot trace: kept over the rows they cost three registers.
template <class State, Form kForm>
SILT_DEVICE void shift_history_of(const Params& p, const Place<State, kForm>& at, int slot, const Channels& c) {
  gpu::forget_origin(slot);
  shift_history<true>(p, history_pieces(p, at.part, at.head, at.column, slot), c);
}

/// Norm and gate of the block's own rows, one rounding.
template <class State, Form kForm>
SILT_DEVICE void write_output(const Params& p, const Shared<State, kForm>& shared, Place<State, kForm> at) {
  constexpr int kRows = Sizes<State, kForm>::kRows;
  constexpr int kWholeWarps = (kRows + 31) / 32 * 32;
  if (at.output_row < 0 || at.output_row >= kWholeWarps) return;
  float o = 0;
  if (at.outputs) o = reinterpret_cast<const float*>(shared.output)[at.rank * kRows + at.output_row];
  if (p.norm_weight != nullptr) {
    const float scale = inverse_rms(shared.output, static_cast<int>(threadIdx.x % 32), p.norm_eps);
    if (at.outputs) o = o * scale * shared.factor[at.output_row];
  }
  gpu::forget_origin(at.row);
  if (at.outputs) *at.output(p) = gpu::float_to_bf16(o);
}

/// Asks in L2 for what is read behind the dependency wait: this step's inputs, of which it reads nothing (the
/// predecessor may still be writing, and writes to L2), and the weights that nobody has registers for until then.
template <class State, Form kForm>
SILT_DEVICE void prefetch_inputs(const Params& p, const Place<State, kForm>& at) {
  if (at.works) gpu::prefetch_l2(input_at(p, at.part, at.row, at.head, at.column));
  if (threadIdx.x == 0) gpu::prefetch_l2(p.raw_beta + at.row * p.beta_stride + at.head);
  if (p.norm_weight != nullptr && at.outputs) {
    const int column = at.rank * Sizes<State, kForm>::kRows + at.output_row;
    gpu::prefetch_l2(p.output_gate + at.row * p.output_gate_stride + (at.head * kHeadDim + column));
    gpu::prefetch_l2(p.norm_weight + column);
  }
  if (p.conv_bias != nullptr && at.works && at.part != kGatePart) {
    gpu::prefetch_l2(p.conv_bias + (static_cast<uint32_t>(at.part * p.heads + at.head) * kHeadDim + at.column));
  }
}

/// A padding row: zeros, nothing else. It still arrives, waits and triggers, because its peers and dependents do.
template <class State, Form kForm>
SILT_DEVICE void write_padding(const Params& p, const Place<State, kForm>& at) {
  if constexpr (kForm.cluster > 1) gpu::cluster_wait();
  gpu::dependency_wait();
  gpu::trigger_dependents();
  if (at.outputs) *at.output(p) = 0;
}

// The form goes by its name: nvcc 13 takes no class values as template arguments of a kernel.
template <FormId kId>
constexpr Form kFormOf = form_of(kId);

template <class State, FormId kId>
__global__ void __launch_bounds__(kFormOf<kId>.threads, kFormOf<kId>.min_blocks)
    kda_decode_cuda_sm90_heads(const __grid_constant__ Params p) {
  constexpr Form kForm = kFormOf<kId>;
  using Z = Sizes<State, kForm>;
  auto& shared = *static_cast<Shared<State, kForm>*>(gpu::dynamic_shared());
  const Place<State, kForm> at(p);
  const int slot = gpu::load(p.indices + at.row);
  init_barriers<State, kForm>(shared);

  // What no predecessor writes, in the order of its way to memory.
  Channels c;
  if (at.works) load_weights<true>(p, at.part, at.head, at.column, c);
  if (p.prefetch) prefetch_inputs<State, kForm>(p, at);  // here, while the slot index is on its way
  if (slot <= p.null_slot || slot >= p.slots) return write_padding<State, kForm>(p, at);
  WarpRows<State, kForm> state(p, at, slot, &shared + 1);
  state.fetch(p, &shared.state_ready[at.warp]);
  const bool has_history = at.works && at.part != kGatePart;
  if (has_history) load_history<true>(history_pieces(p, at.part, at.head, at.column, slot), c);
  if constexpr (kForm.cluster > 1) gpu::cluster_wait();
  gpu::dependency_wait();
  gpu::trigger_dependents();

  // This step's inputs to q, k, v, decay, beta and the output factors.
  if (at.works) load_input<true>(p, at.part, at.row, at.head, at.column, c);
  const uint16_t raw_beta = gpu::load(p.raw_beta + at.row * p.beta_stride + at.head);
  if (p.norm_weight != nullptr && at.outputs) {
    shared.factor[at.output_row] = output_factor(p, at.row, at.head, at.rank * Z::kRows + at.output_row);
  }
  if (has_history && p.channel_major) pieces_to_taps(c.h0, c.h1, c.h2);
  if (at.works) {
    const float4 v = at.part == kGatePart ? decay_of(p.safe_gate, p.lower_bound, c.w1.x, widen(c.x), c.w0)
                                          : conv_and_silu<true>(p, at.part, at.head, at.column, c);
    publish_channels<State, kForm>(shared, at, v);
  }
  if (kForm.cluster == 1 && has_history) shift_history_of<State, kForm>(p, at, slot, c);
  const float beta = gpu::fast_sigmoid(gpu::bf16_to_float(raw_beta));
  if constexpr (kForm.cluster == 1) {
    __syncthreads();  // q, k, v, decay
  } else {
    gpu::mbarrier_await_cluster(gpu::shared_address(&shared.vectors_ready), 0);
  }

  // The rows, pass by pass; stores leave as soon as a pass is done.
  const HeadVectors vectors{shared.q, shared.k, shared.decay};
  const HeadSums sums = head_sums<State>(vectors.q, vectors.k, at.lane);
  const float* values = reinterpret_cast<const float*>(shared.value);
  if constexpr (kForm.bulk) gpu::mbarrier_await(gpu::shared_address(&shared.state_ready[at.warp]), 0);
#pragma unroll
  for (int pass = 0; pass < Z::kPasses; ++pass) {
    constexpr int kRowsPerPass = kForm.rows_per_pass;
    const int first = pass * kRowsPerPass;
    RowShare rows[kRowsPerPass];
#pragma unroll
    for (int r = 0; r < kRowsPerPass; ++r) rows[r] = state.get(first + r);
    const RowOutput output = update_rows<State, kRowsPerPass>(rows, vectors, sums, beta, at.lane,
                                                              [&](int i) { return values[at.row_of(first + i)]; });
    publish_output<State, kForm>(shared, at, first, output);
#pragma unroll
    for (int r = 0; r < kRowsPerPass; ++r) state.put(first + r, rows[r]);
    state.send(p, pass);
  }

  const Place<State, kForm> end = kForm.bulk ? Place<State, kForm>::again(p) : at;
  if constexpr (kForm.cluster == 1) {
    __syncthreads();  // outputs
  } else {
    gpu::mbarrier_await_cluster(gpu::shared_address(&shared.outputs_ready), 0);
    if (end.works && end.part != kGatePart && end.peer == end.rank) shift_history_of<State, kForm>(p, end, slot, c);
  }
  write_output<State, kForm>(p, shared, end);
  // Shared memory must outlive the reads of the copy engine; the writes may complete after the block.
  if (kForm.bulk && threadIdx.x % 32 == 0) gpu::bulk_wait_reads();
}

}  // namespace silt::kda_decode_cuda_sm90_heads
