// The phases of one decode step on one (row, head), shared by the kernels of this room; the delta rule itself is
// kda/shared/cuda/delta_rule.cuh.
#pragma once

#include "kda/decode/cuda/params.hpp"
#include "kda/shared/cuda/delta_rule.cuh"

namespace silt::kda_decode_cuda {

using namespace kda_cuda;

/// Parts of the convolution; the fourth group of channels makes the decay.
constexpr int kValuePart = 2;
constexpr int kGatePart = 3;

/// Four neighbouring channels of q, k, v or the gate in one thread: 16-byte weights, 8-byte activations.
struct Channels {
  float4 w0, w1, w2, w3;  // taps oldest to newest; for the gate w0 is dt_bias and w1.x A_log
  uint2 h0, h1, h2, x;    // history oldest to newest, then this step's input
};

/// Convolution weights, or dt_bias and A_log: they depend on nothing but the head.
template <bool kAligned>
SILT_DEVICE void load_weights(const Params& p, int part, int head, int column, Channels& c) {
  const uint32_t channels = static_cast<uint32_t>(p.heads) * kHeadDim;
  const uint32_t channel = static_cast<uint32_t>(head * kHeadDim + column);
  if (part == kGatePart) {
    c.w0 = gpu::load_4<kAligned>(p.dt_bias + channel);
    c.w1.x = gpu::load(p.a_log + head);
    return;
  }
  const float* taps = p.conv_weight + (static_cast<uint32_t>(part) * 4 * channels + channel);
  c.w0 = gpu::load_4<kAligned>(taps);
  c.w1 = gpu::load_4<kAligned>(taps + channels);
  c.w2 = gpu::load_4<kAligned>(taps + 2 * channels);
  c.w3 = gpu::load_4<kAligned>(taps + 3 * channels);
}

/// Where the three 8-byte pieces of four channels' history stand. SD: one piece per tap. DS: the twelve values of the
/// four channels are contiguous, four to a piece.
struct HistoryPieces {
  uint16_t* base;
  uint32_t step;
};

SILT_DEVICE HistoryPieces history_pieces(const Params& p, int part, int head, int column, int slot) {
  const uint32_t channels = static_cast<uint32_t>(p.heads) * kHeadDim;
  const uint32_t channel = static_cast<uint32_t>(part) * channels + static_cast<uint32_t>(head * kHeadDim + column);
  uint16_t* page = p.history + slot * p.history_slot_stride;
  return p.channel_major ? HistoryPieces{page + 3 * channel, 4} : HistoryPieces{page + channel, 3 * channels};
}

template <bool kAligned>
SILT_DEVICE void load_history(const HistoryPieces& at, Channels& c) {
  c.h0 = gpu::load_4<kAligned>(at.base);
  c.h1 = gpu::load_4<kAligned>(at.base + at.step);
  c.h2 = gpu::load_4<kAligned>(at.base + 2 * at.step);
}

/// DS pieces (c0t0 c0t1 c0t2 c1t0 | c1t1 ...) to one piece per tap (c0 c1 c2 c3), and back.
SILT_DEVICE void pieces_to_taps(uint2& a, uint2& b, uint2& c) {
  const uint2 t0 = {__byte_perm(a.x, a.y, 0x7610), __byte_perm(b.y, c.x, 0x7610)};
  const uint2 t1 = {__byte_perm(a.x, b.x, 0x5432), __byte_perm(b.y, c.y, 0x5432)};
  const uint2 t2 = {__byte_perm(a.y, b.x, 0x7610), __byte_perm(c.x, c.y, 0x7610)};
  a = t0;
  b = t1;
  c = t2;
}
SILT_DEVICE void taps_to_pieces(uint2& a, uint2& b, uint2& c) {
  const uint2 p0 = {__byte_perm(a.x, b.x, 0x5410), __byte_perm(c.x, a.x, 0x7610)};
  const uint2 p1 = {__byte_perm(b.x, c.x, 0x7632), __byte_perm(a.y, b.y, 0x5410)};
  const uint2 p2 = {__byte_perm(c.y, a.y, 0x7610), __byte_perm(b.y, c.y, 0x7632)};
  a = p0;
  b = p1;
  c = p2;
}

/// This step's x or raw gate: what a predecessor writes.
SILT_DEVICE const uint16_t* input_at(const Params& p, int part, int row, int head, int column) {
  const int channel = head * kHeadDim + column;
  return part == kGatePart ? p.raw_gate + row * p.gate_stride + channel
                           : p.x + row * p.x_stride + (static_cast<uint32_t>(part * p.heads * kHeadDim) + channel);
}
template <bool kAligned>
SILT_DEVICE void load_input(const Params& p, int part, int row, int head, int column, Channels& c) {
  c.x = gpu::load_4<kAligned>(input_at(p, part, row, head, column));
}

/// Convolution and SiLU of four channels. The bias is loaded here, beside x: a register less is alive across the wait.
template <bool kAligned>
SILT_DEVICE float4 conv_and_silu(const Params& p, int part, int head, int column, const Channels& c) {
  float4 y = make_float4(0, 0, 0, 0);
  if (p.conv_bias != nullptr) {
    y = gpu::load_4<kAligned>(p.conv_bias + (static_cast<uint32_t>(part * p.heads + head) * kHeadDim + column));
  }
  y = multiply_add(c.w0, widen(c.h0), y);
  y = multiply_add(c.w1, widen(c.h1), y);
  y = multiply_add(c.w2, widen(c.h2), y);
  y = multiply_add(c.w3, widen(c.x), y);
  const float4 z = make_float4(y.x * gpu::fast_sigmoid(y.x), y.y * gpu::fast_sigmoid(y.y), y.z * gpu::fast_sigmoid(y.z),
                               y.w * gpu::fast_sigmoid(y.w));
  return part == kValuePart ? z : infinite_to_nan(z);
}

/// History [h1, h2, x]: raw inputs, bit exact. The caller makes sure that every reader is done.
template <bool kAligned>
SILT_DEVICE void shift_history(const Params& p, const HistoryPieces& at, const Channels& c) {
  uint2 a = c.h1;
  uint2 b = c.h2;
  uint2 d = c.x;
  if (p.channel_major) taps_to_pieces(a, b, d);
  gpu::store_4<kAligned>(at.base, a);
  gpu::store_4<kAligned>(at.base + at.step, b);
  gpu::store_4<kAligned>(at.base + 2 * at.step, d);
}

/// The factor of one output column: norm weight times sigmoid of the output gate.
SILT_DEVICE float output_factor(const Params& p, int row, int head, int column) {
  const uint16_t gate = gpu::load(p.output_gate + row * p.output_gate_stride + (head * kHeadDim + column));
  return gpu::load(p.norm_weight + column) * gpu::fast_sigmoid(gpu::bf16_to_float(gate));
}

}  // namespace silt::kda_decode_cuda
