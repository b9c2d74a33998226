// What: kda_recurrence (contract.md) in one launch on any NVIDIA GPU from sm_80 on.
//
// When: bf16 gates; q, k, v and output bf16 or fp32, state fp32 or bf16; any head count, lengths, tables of slots,
// strides and alignment of the contract.
//
// Plan: two blocks of 128 threads per (sequence, head), heads fastest, grid on x: each has 64 rows of the state. A warp
// each takes q, k, v and the raw gate, four channels a thread; a half-warp owns eight rows of the state, which stay in
// registers, in fp32, from the first token to the last.
//
// Data path: slot; state; the first token's inputs. Then per token: inputs to shared memory (two buffers in turn, so
// that one barrier a token is enough: a buffer is filled again only behind the barrier that follows its last reader);
// the next token's inputs are loaded before this token's rows are worked on; outputs leave from the lanes that have
// them. A thread reads and writes the same elements of every slot, and has read before it writes: the blocks of a
// sequence need not know of each other, whatever columns a table names.
//
// Bytes: the state once each way, with a table written once per token that has a column; q, k and the gate twice (once
// per block), v, beta and output once (cost.cpp counts all of them once).
//
// Roofline: bandwidth for one token a sequence, with 128 KiB of fp32 state in flight per SM (four blocks). Many tokens
// are a chain of steps between two barriers, in which the state does not move.
//
// Rounding: fp32 until the stored state and the output, by the trees of kda_decode's kernels (delta_rule.cuh): with
// fp32 q, k, v of causal_conv1d_update and an fp32 output through rms_norm_gated the chain has the bits of the fused
// step.
#include "kda/recurrence/cuda/params.hpp"
#include "kda/shared/cuda/delta_rule.cuh"

namespace silt::kda_recurrence_cuda {
namespace {

using namespace kda_cuda;

constexpr int kBlocksPerSm = 4;  // 128 registers: 64 of them hold the rows
constexpr int kWarps = kThreads / 32;
constexpr int kRows = kHeadDim / kBlocksPerHead;
constexpr int kRowsPerWarp = kRows / kWarps;
constexpr int kRowsPerPass = 2;  // 4 would spill where a bf16 state is stored by vectors
constexpr int kPasses = kRowsPerWarp / 2 / kRowsPerPass;
constexpr int kQueryPart = 0;
constexpr int kKeyPart = 1;
constexpr int kValuePart = 2;
constexpr int kGatePart = 3;  // one warp each

/// Of the thread's gate channels: kept here, since registers are short.
struct GateWeights {
  float4 dt_bias;
  float a_log;
};

struct Vectors {
  float4 q[kHeadDim / 4];
  float4 k[kHeadDim / 4];
  float4 decay[kHeadDim / 4];
  float4 value[kRows / 4];
  float beta;
  int target;  // slot of the state behind the token
};

/// Where a thread stands.
struct Place {
  int sequence;
  int head;
  int first_row;  // of the head: the block's
  int half_row;   // of the block: the half-warp's first; then every second one
  int lane;       // of the half-warp
  int part;       // q, k, v or the gate
  int column;     // of the head: first of four
  bool works;     // has channels; of v only the block's rows

  SILT_DEVICE explicit Place(const Params& p) {
    const uint32_t item = blockIdx.x / kBlocksPerHead;
    sequence = static_cast<int>(item / static_cast<uint32_t>(p.heads));
    head = static_cast<int>(item) - sequence * p.heads;
    first_row = static_cast<int>(blockIdx.x % kBlocksPerHead) * kRows;
    const int thread = static_cast<int>(threadIdx.x);
    part = thread / 32;
    half_row = part * kRowsPerWarp + thread / kLanesPerRow % 2;
    lane = thread % kLanesPerRow;
    column = thread % 32 * 4 + (part == kValuePart ? first_row : 0);
    works = part != kValuePart || column < first_row + kRows;
  }
  SILT_DEVICE int row_of(int pass, int i) const { return half_row + 2 * (pass * kRowsPerPass + i); }
};

SILT_DEVICE bool is_live(const Params& p, int slot) { return slot > p.null_slot && slot < p.slots; }

/// Where the sequence's state is read; -1, which is padding by every rule, where the count is outside the table.
SILT_DEVICE int source_slot(const Params& p, int sequence) {
  if (p.accepted == nullptr) return gpu::load(p.indices + sequence);
  const int accepted = gpu::load(p.accepted + sequence);
  return accepted >= 1 && accepted <= p.columns ? gpu::load(p.indices + sequence * p.columns + accepted - 1) : -1;
}

SILT_DEVICE void store_output(const Params& p, int row, int channel, float value) {
  const int64_t at = row * p.output_stride + channel;
  if (p.output_is_f32) {
    static_cast<float*>(p.output)[at] = value;
  } else {
    static_cast<uint16_t*>(p.output)[at] = gpu::float_to_bf16(value);
  }
}

/// Where the state behind token number `index` goes; a padding index where it is not stored.
SILT_DEVICE int target_slot(const Params& p, int sequence, int index, bool last, int slot) {
  if (p.accepted == nullptr) return last ? slot : -1;
  return index < p.columns ? gpu::load(p.indices + sequence * p.columns + index) : -1;
}

/// What a thread brings for a token: its four channels of q, k or v as stored, in four words of fp32 or two of bf16;
/// of the gate two words, then beta and the slot where the state behind the token goes.
template <class Qkv, bool kAligned>
SILT_DEVICE uint4 load_token(const Params& p, const Place& at, int row, int target) {
  const int channel = at.head * kHeadDim + at.column;
  if (at.part == kGatePart) {
    const uint2 gate = gpu::load_4<kAligned>(p.raw_gate + row * p.gate_stride + channel);
    const uint16_t beta = gpu::load(p.raw_beta + row * p.beta_stride + at.head);
    return make_uint4(gate.x, gate.y, beta, static_cast<uint32_t>(target));
  }
  if (!at.works) return {};
  const void* base = at.part == kQueryPart ? p.q : at.part == kKeyPart ? p.k : p.v;
  const int64_t stride = at.part == kQueryPart ? p.q_stride : at.part == kKeyPart ? p.k_stride : p.v_stride;
  const Qkv* from = static_cast<const Qkv*>(base) + row * stride + channel;
  if constexpr (sizeof(Qkv) == 2) {
    const uint2 v = gpu::load_4<kAligned>(from);
    return make_uint4(v.x, v.y, 0, 0);
  } else {
    const float4 v = gpu::load_4<kAligned>(from);
    return make_uint4(__float_as_uint(v.x), __float_as_uint(v.y), __float_as_uint(v.z), __float_as_uint(v.w));
  }
}

template <class Qkv>
SILT_DEVICE void put_token(const Params& p, const Place& at, const GateWeights& gate, uint4 stored, Vectors& vectors) {
  const float4 half = widen(make_uint2(stored.x, stored.y));
  if (at.part == kGatePart) {
    vectors.decay[at.column / 4] = decay_of(p.safe_gate, p.lower_bound, gate.a_log, half, gate.dt_bias);
    if (at.column == 0) {
      vectors.beta = gpu::fast_sigmoid(gpu::bf16_to_float(static_cast<uint16_t>(stored.z)));
      vectors.target = static_cast<int>(stored.w);
    }
    return;
  }
  float4 z = half;
  if constexpr (sizeof(Qkv) == 4) {
    z = make_float4(__uint_as_float(stored.x), __uint_as_float(stored.y), __uint_as_float(stored.z),
                    __uint_as_float(stored.w));
  }
  if (at.part != kValuePart) {
    (at.part == kQueryPart ? vectors.q : vectors.k)[at.column / 4] = infinite_to_nan(z);
  } else if (at.works) {
    vectors.value[(at.column - at.first_row) / 4] = z;
  }
}

template <class State, class Qkv, bool kAligned>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    kda_recurrence_cuda_sm80_rows(const __grid_constant__ Params p) {
  __shared__ Vectors shared[2];
  __shared__ GateWeights gate_weights[32];
  const Place at(p);
  const int begin = p.offsets == nullptr ? at.sequence : gpu::load(p.offsets + at.sequence);
  const int end = p.offsets == nullptr ? begin + 1 : gpu::load(p.offsets + at.sequence + 1);
  if (begin >= end) return;
  const int slot = source_slot(p, at.sequence);
  if (!is_live(p, slot)) {
    const int row_of_head = at.first_row + static_cast<int>(threadIdx.x);
    for (int row = begin; row < end && threadIdx.x < kRows; ++row) {
      store_output(p, row, at.head * kHeadDim + row_of_head, 0);
    }
    return;
  }

  // Everything that is far away, before anything is used.
  const int in_slot =
      at.head * kStateElements + (at.first_row + at.half_row) * kHeadDim + at.lane * kVectorElements<State>;
  const auto rows_in = [&](int64_t number) {
    State* rows = static_cast<State*>(p.state) + number * p.state_slot_stride + in_slot;
    gpu::forget_origin(rows);
    return rows;
  };
  const State* from = rows_in(slot);
  StoredShare<State> stored[kPasses][kRowsPerPass];
#pragma unroll
  for (int i = 0; i < kPasses * kRowsPerPass; ++i) {
    stored[i / kRowsPerPass][i % kRowsPerPass] = load_share<kAligned, gpu::Hint::none>(from + i * 2 * kHeadDim);
  }
  GateWeights loaded{};
  if (at.part == kGatePart) {
    loaded.dt_bias = gpu::load_4<kAligned>(p.dt_bias + at.head * kHeadDim + at.column);
    loaded.a_log = gpu::load(p.a_log + at.head);
  }
  uint4 next = load_token<Qkv, kAligned>(p, at, begin, target_slot(p, at.sequence, 0, begin + 1 == end, slot));
  GateWeights& gate = gate_weights[threadIdx.x % 32];
  if (at.part == kGatePart) gate = loaded;
  RowShare rows[kPasses][kRowsPerPass];
#pragma unroll
  for (int i = 0; i < kPasses * kRowsPerPass; ++i) {
    rows[i / kRowsPerPass][i % kRowsPerPass] = widen(stored[i / kRowsPerPass][i % kRowsPerPass]);
  }

  for (int row = begin; row < end; ++row) {
    Vectors& vectors = shared[row % 2];
    put_token<Qkv>(p, at, gate, next, vectors);
    __syncthreads();  // q, k, v, decay, beta, target
    if (row + 1 < end) {
      const int target = target_slot(p, at.sequence, row + 1 - begin, row + 2 == end, slot);
      next = load_token<Qkv, kAligned>(p, at, row + 1, target);
    }
    const HeadVectors head{vectors.q, vectors.k, vectors.decay};
    const HeadSums sums = head_sums<State>(head.q, head.k, at.lane);
    const float* values = reinterpret_cast<const float*>(vectors.value);
    State* to = is_live(p, vectors.target) ? rows_in(vectors.target) : nullptr;
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      const RowOutput o = update_rows<State, kRowsPerPass>(rows[pass], head, sums, vectors.beta, at.lane,
                                                           [&](int i) { return values[at.row_of(pass, i)]; });
      if (o.valid && o.copy == 0) {
        store_output(p, row, at.head * kHeadDim + at.first_row + at.row_of(pass, o.index), o.value);
      }
      if (to == nullptr) continue;
#pragma unroll
      for (int r = 0; r < kRowsPerPass; ++r) {
        store_share<kAligned, gpu::Hint::none>(to + (pass * kRowsPerPass + r) * 2 * kHeadDim,
                                               narrow<State>(rows[pass][r]));
      }
    }
  }
}

template <class State, class Qkv>
Kernel pick(bool aligned) {
  return aligned ? kda_recurrence_cuda_sm80_rows<State, Qkv, true> : kda_recurrence_cuda_sm80_rows<State, Qkv, false>;
}

}  // namespace

Kernel sm80_rows_kernel(int state_bytes, bool qkv_is_f32, bool aligned) {
  if (state_bytes == 2) return qkv_is_f32 ? pick<uint16_t, float>(aligned) : pick<uint16_t, uint16_t>(aligned);
  return qkv_is_f32 ? pick<float, float>(aligned) : pick<float, uint16_t>(aligned);
}

}  // namespace silt::kda_recurrence_cuda
