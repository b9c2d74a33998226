// What: kda_decode (contract.md) in one launch on any NVIDIA GPU from sm_80 on.
//
// When: bf16 activations, state fp32 or bf16, any head count, any alignment and strides of the contract.
//
// Plan: one block of 256 threads per (row, head), heads fastest, grid on x. 128 threads take four channels each of q,
// k, v and the decay; a half-warp owns eight rows of the state, all of them in registers from the first phase on.
//
// Data path: slot index; weights; state; history; x, gates, beta. Where the tensors are aligned (16 bytes state and
// weights, 8 bytes activations) a thread loads whole vectors, else element by element. One block owns a (row, head), so
// the history is shifted by the thread that has read it. Two barriers: q, k, v and decay; outputs.
//
// Bytes: 137,218 per (row, head) with fp32 state, 71,682 with bf16 (cost.cpp).
//
// Roofline: 64 KiB of state in flight per block and two blocks per SM; the register form of the prototype, which is
// this one, was within 0.5 % of the best schedule on an H200 from B * H = 1536 on.
//
// Rounding: as cuda_sm90_heads, with the same trees (delta_rule.cuh): the same bits.
#pragma once

#include "kda/decode/cuda/instances.hpp"
#include "kda/decode/cuda/phases.cuh"

namespace silt::kda_decode_cuda_sm80_rows {

using namespace kda_decode_cuda;

constexpr int kThreads = kSm80RowsThreads;
constexpr int kBlocksPerSm = 2;  // 128 registers: 64 of them hold fp32 state
constexpr int kWarps = kThreads / 32;
constexpr int kRowsPerWarp = kHeadDim / kWarps;
constexpr int kRowsPerHalf = kRowsPerWarp / 2;
constexpr int kRowsPerPass = 4;
constexpr int kChannelThreads = 4 * kHeadDim / 4;

struct Shared {
  float4 vectors[4][kHeadDim / 4];  // q, k, v, decay
  float4 output[kHeadDim / 4];
  float factor[kHeadDim];
};

/// Convolution or decay of the thread's four channels; the history moves on at once, nobody else reads it.
template <bool kAligned>
SILT_DEVICE void make_channels(const Params& p, int part, int row, int head, int column, const HistoryPieces& history,
                               Channels& c, Shared& shared) {
  load_input<kAligned>(p, part, row, head, column, c);
  if (part == kGatePart) {
    shared.vectors[part][column / 4] = decay_of(p.safe_gate, p.lower_bound, c.w1.x, widen(c.x), c.w0);
    return;
  }
  if (p.channel_major) pieces_to_taps(c.h0, c.h1, c.h2);
  shared.vectors[part][column / 4] = conv_and_silu<kAligned>(p, part, head, column, c);
  shift_history<kAligned>(p, history, c);
}

template <class State, bool kAligned>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm) kda_decode_cuda_sm80_rows(const __grid_constant__ Params p) {
  __shared__ Shared shared;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kLanesPerRow;
  const int first_row = thread / 32 * kRowsPerWarp + thread / kLanesPerRow % 2;  // then every second one
  const int row = static_cast<int>(blockIdx.x / static_cast<uint32_t>(p.heads));
  const int head = static_cast<int>(blockIdx.x) - row * p.heads;
  const int slot = gpu::load(p.indices + row);
  const int part = thread / (kHeadDim / 4);
  const int column = thread % (kHeadDim / 4) * 4;
  const int output_row = thread - kChannelThreads;
  uint16_t* output = p.output + row * p.output_stride + (head * kHeadDim + output_row);
  if (slot <= p.null_slot || slot >= p.slots) {
    if (output_row >= 0) *output = 0;
    return;
  }

  // Everything that is far away, before anything is used.
  Channels c;
  if (thread < kChannelThreads) load_weights<kAligned>(p, part, head, column, c);
  State* rows_at = static_cast<State*>(p.state) + slot * p.state_slot_stride +
                   (head * kStateElements + first_row * kHeadDim + lane * kVectorElements<State>);
  gpu::forget_origin(rows_at);
  StoredShare<State> held[kRowsPerHalf];
#pragma unroll
  for (int i = 0; i < kRowsPerHalf; ++i) held[i] = load_share<kAligned, gpu::Hint::none>(rows_at + i * 2 * kHeadDim);
  HistoryPieces history{};
  if (part < kGatePart) {
    history = history_pieces(p, part, head, column, slot);
    load_history<kAligned>(history, c);
  }
  const float beta = gpu::fast_sigmoid(gpu::bf16_to_float(gpu::load(p.raw_beta + row * p.beta_stride + head)));
  if (thread < kChannelThreads) {
    make_channels<kAligned>(p, part, row, head, column, history, c, shared);
  } else if (p.norm_weight != nullptr) {
    shared.factor[output_row] = output_factor(p, row, head, output_row);
  }
  __syncthreads();  // q, k, v, decay

  const HeadVectors vectors{shared.vectors[0], shared.vectors[1], shared.vectors[kGatePart]};
  const HeadSums sums = head_sums<State>(vectors.q, vectors.k, lane);
  const float* values = reinterpret_cast<const float*>(shared.vectors[kValuePart]);
  float* outputs = reinterpret_cast<float*>(shared.output);
#pragma unroll
  for (int first = 0; first < kRowsPerHalf; first += kRowsPerPass) {
    RowShare rows[kRowsPerPass];
#pragma unroll
    for (int r = 0; r < kRowsPerPass; ++r) rows[r] = widen(held[first + r]);
    const RowOutput o = update_rows<State, kRowsPerPass>(rows, vectors, sums, beta, lane,
                                                         [&](int i) { return values[first_row + 2 * (first + i)]; });
    if (o.valid && o.copy == 0) outputs[first_row + 2 * (first + o.index)] = o.value;
#pragma unroll
    for (int r = 0; r < kRowsPerPass; ++r) {
      store_share<kAligned, gpu::Hint::none>(rows_at + (first + r) * 2 * kHeadDim, narrow<State>(rows[r]));
    }
  }
  __syncthreads();  // outputs

  if (output_row < 0) return;
  float o = outputs[output_row];
  if (p.norm_weight != nullptr) {
    o = o * inverse_rms(shared.output, thread % 32, p.norm_eps) * shared.factor[output_row];
  }
  *output = gpu::float_to_bf16(o);
}

}  // namespace silt::kda_decode_cuda_sm80_rows
