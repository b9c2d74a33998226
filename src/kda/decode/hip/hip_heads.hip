// What: kda_decode (contract.md) in one launch on AMD CDNA 3 and 4: hip_gfx942_heads and hip_gfx950_heads, one source.
//
// When: bf16 activations, state fp32 or bf16, any head count, any alignment and strides of the contract. Where the
// tensors are aligned (16 bytes state and weights, 4 bytes activations) lanes move whole vectors, else single elements.
//
// Plan: one workgroup of 256 threads (four waves) per (row, head), heads fastest: neighbours walk adjacent slices.
//   loads   slot index; then the small tensors (waves 0..2 = q, k, v, two channels a lane; wave 3 the gates); then the
//           whole state slice into registers: 16 (fp32) or 8 (bf16) 16-byte loads a lane. vmcnt counts in the order of
//           issue, so what is needed first is asked for first: the convolution waits for its inputs and leaves the
//           state in flight.
//   conv    convolution and SiLU, decay, beta -> LDS. No block reduction: each group of 16 lanes holds all 128 columns
//   of
//           q and k between its lanes, and makes |q|^2, |k|^2 and k.q for itself.
//   rows    wave w owns rows 32w..32w+31, a group of 16 lanes a row at a time, a lane 8 columns: S.k and S.q in one
//           pass, the row is stored at once.
//   norm    outputs and 16 partial sums of squares -> LDS; wave 3 normalises and writes the 256 bytes.
//
// Data path: state once in and once out, past the caches (nt), 16 bytes a lane, 256 bytes a row contiguous. Every
// channel's history is read and shifted by one lane; every state element has one lane. Barrier 1 publishes q, k, v,
// decay and beta; barrier 2 the outputs and the sums. A padding row writes zeros and returns before it reads anything.
//
// Bytes: 137,218 per (row, head) with fp32 state, 71,682 with bf16 (cost.cpp).
//
// Roofline (derived; this kernel has never been timed): MI300X moves 5.3 TB/s over 304 CUs, 17 B/ns each, MI355X 8 TB/s
// over 256, 31 B/ns. At 2 us of loaded latency that needs 35 and 62 KB in flight per CU; the registers of four
// workgroups hold 256 KB (fp32). H = 12, B = 128: 211 MB, floor 40 us and 26 us. Vector instructions executed per wave,
// about 500 at 4 cycles, are 1 us of a CU against 31 us (17 us) of memory for the four workgroups.
//
// Rounding: fp32 throughout, every fused multiply-add written out; sums depend on the state type alone.
//
// Tried (by instruction counts and the compiler's waits): state in front of the small loads: the convolution waits for
// all of it. Optional tensors loaded under a branch: the register copy at its end waits; they load from a stand-in
// address instead. No fence between passes: all rows are multiplied by the decay before the first is stored. History
// stored before the rows: three stores more to wait for in every row. 6 waves a SIMD for bf16: spills.
#include "gpu/hip/device.hpp"
#include "kda/decode/hip/params.hpp"
#include "kda/shared/hip/delta_rule.hpp"

namespace silt::kda_decode_hip {
namespace {

using namespace kda_hip;

/// Where things stand in LDS, in floats.
enum : uint32_t { kQ = 0, kK = kDim, kV = 2 * kDim, kDecay = 3 * kDim, kO = 4 * kDim, kPartial = 5 * kDim };
constexpr uint32_t kPartials = kWaves * kRowsPerPass;
constexpr uint32_t kBeta = kPartial + kPartials;
constexpr uint32_t kLdsFloats = kBeta + 4;

/// History of two channels as three words. SD: a word per tap. DS: the six values are contiguous, c0t0 c0t1 | c0t2 c1t0
/// | c1t1 c1t2; these two turn words into taps and back.
struct Taps {
  uint32_t oldest, middle, newest;
};
SILT_DEVICE Taps words_to_taps(const Taps& w) {
  return {(w.oldest & 0xffffu) | (w.middle & 0xffff0000u), (w.oldest >> 16) | (w.newest << 16),
          (w.middle & 0xffffu) | (w.newest & 0xffff0000u)};
}
SILT_DEVICE Taps taps_to_words(const Taps& t) {
  return {(t.oldest & 0xffffu) | (t.middle << 16), (t.newest & 0xffffu) | (t.oldest & 0xffff0000u),
          (t.middle >> 16) | (t.newest & 0xffff0000u)};
}

template <class State, bool kAligned>
SILT_DEVICE void decode(const Params& args) {
  using Element = typename State::Element;
  const Lds lds = lds_floats<static_cast<int>(kLdsFloats)>();
  const uint32_t item = group_id();
  const auto [row, head] = divide(item, args.heads, args.heads_reciprocal);
  const uint32_t lane = thread_id() % kWaveLanes;
  const uint32_t wave = uniform(thread_id() / kWaveLanes);
  const uint32_t pair = 2 * lane;  // two adjacent channels a lane
  const int64_t channels = static_cast<int64_t>(args.heads) * kDim;
  const int64_t slot = args.indices[row];
  const uint32_t first = head * kDim;  // the head's first channel of a part
  const Global<uint16_t> output = args.output + row * args.output_stride + first;
  if (slot <= args.null_slot || slot >= args.slots) {  // the same for the whole workgroup
    if (wave == kGateWave) store_pair<kAligned>(output + pair, 0);
    return;
  }

  // Addresses are a uniform base and a 32-bit offset of the lane.
  const int64_t part = wave * channels + first;
  const bool has_norm = args.norm_weight != nullptr;
  const bool has_bias = args.conv_bias != nullptr;
  const bool channel_major = args.channel_major != 0;
  const Global<uint16_t> history = args.history + slot * args.history_slot_stride + (channel_major ? 3 * part : part);
  const uint32_t in_history = channel_major ? 3 * pair : pair;
  const int64_t history_step = channel_major ? 2 : 3 * channels;
  uint32_t x SILT_UNSET;
  Taps taps SILT_UNSET;
  f32x2 w0 SILT_UNSET, w1 SILT_UNSET, w2 SILT_UNSET, w3 SILT_UNSET, bias SILT_UNSET;
  uint32_t gate SILT_UNSET, output_gate SILT_UNSET;
  uint16_t beta SILT_UNSET;
  f32x2 dt SILT_UNSET, norm_weight SILT_UNSET;
  if (wave < kGateWave) {
    x = load_pair<kAligned>(args.x + row * args.x_stride + part + pair);
    taps.oldest = load_pair<kAligned>(history + in_history);
    taps.middle = load_pair<kAligned>(history + history_step + in_history);
    taps.newest = load_pair<kAligned>(history + 2 * history_step + in_history);
    const Global<const float> weight = args.conv_weight + 4 * wave * channels + first;
    w0 = load_pair<kAligned>(weight + pair);
    w1 = load_pair<kAligned>(weight + channels + pair);
    w2 = load_pair<kAligned>(weight + 2 * channels + pair);
    w3 = load_pair<kAligned>(weight + 3 * channels + pair);
    bias = load_pair<kAligned>((has_bias ? args.conv_bias + part : weight) + pair);
  } else {
    gate = load_pair<kAligned>(args.raw_gate + row * args.gate_stride + first + pair);
    dt = load_pair<kAligned>(args.dt_bias + first + pair);
    beta = load<uint16_t>(args.raw_beta + row * args.beta_stride + head);
    // Other stand-ins than `gate` and `dt`, whose values the compiler would copy.
    output_gate = load_pair<kAligned>(
        (has_norm ? args.output_gate + row * args.output_gate_stride + first : args.raw_gate) + pair);
    norm_weight = load_pair<kAligned>((has_norm ? args.norm_weight : args.dt_bias) + pair);
  }
  schedule_fence();

  // The state slice, in flight under everything up to the first row.
  const uint32_t group = lane / kLanesPerRow;
  const uint32_t column = lane % kLanesPerRow;
  const Global<Element> state = static_cast<Global<Element>>(args.state) + slot * args.state_slot_stride +
                                (static_cast<int64_t>(head) * kDim + wave * kRowsPerWave) * kDim;
  const uint32_t mine = group * kDim + column * State::kFirstColumn;
  typename State::Packed held[kPasses];
  SILT_UNROLL
  for (uint32_t p = 0; p < kPasses; ++p) {
    held[p] = State::load_row(scalar_base<Element>(state + p * kRowsPerPass * kDim) + mine);
  }
  schedule_fence();

  if (wave < kGateWave) {
    const Taps t = channel_major ? words_to_taps(taps) : taps;
    f32x2 y = fma2(w0, widen(t.oldest), has_bias ? bias : f32x2{0.0F, 0.0F});
    y = fma2(w1, widen(t.middle), y);
    y = fma2(w2, widen(t.newest), y);
    y = fma2(w3, widen(x), y);
    f32x2 z = {silu(y[0]), silu(y[1])};
    // An infinite q or k becomes NaN: a reciprocal root of 0 then means that finite squares overflowed, nothing else.
    if (wave != kValueWave) z = fma2(z, f32x2{0.0F, 0.0F}, z);
    lds_put2(lds, wave * kDim + pair, z);
    taps = {t.middle, t.newest, x};
  } else {
    const float a = fast_exp(args.a_log[head]);
    const bool softplus_gate = args.softplus_gate != 0;
    lds_put2(lds, kDecay + pair,
             f32x2{decay_of(low_bf16(gate) + dt[0], a, args.lower_bound, softplus_gate),
                   decay_of(high_bf16(gate) + dt[1], a, args.lower_bound, softplus_gate)});
    if (lane == 0) lds_put(lds, kBeta, fast_sigmoid(low_bf16(late(beta))));
  }
  lds_barrier();  // q, k, v, decay, beta

  const HeadColumns here = head_columns<State>(lds, column, {kQ, kK, kDecay, kBeta});
  float o_mine = 0.0F;
  float squares = 0.0F;
  SILT_UNROLL
  for (uint32_t p = 0; p < kPasses; ++p) {
    const float v = lds_get(lds, kV + wave * kRowsPerWave + p * kRowsPerPass + group);
    f32x4 sa, sb;
    State::unpack(held[p], sa, sb);
    const float o = update_row(here, v, sa, sb);
    State::store_row(scalar_base<Element>(state + p * kRowsPerPass * kDim) + mine, sa, sb);
    squares = fma1(o, o, squares);
    o_mine = column == p ? o : o_mine;
    // Rows leave as they arrive; two passes together fill the wait states of each other's lane moves.
    if (p % 2 == 1) schedule_fence();
  }
  if (wave < kGateWave) {
    const Taps w = channel_major ? taps_to_words(taps) : taps;
    store_pair<kAligned>(history + in_history, w.oldest);
    store_pair<kAligned>(history + history_step + in_history, w.middle);
    store_pair<kAligned>(history + 2 * history_step + in_history, w.newest);
  }
  if (column < kPasses) lds_put(lds, kO + wave * kRowsPerWave + column * kRowsPerPass + group, o_mine);
  if (column == 0) lds_put(lds, kPartial + wave * kRowsPerPass + group, squares);
  lds_barrier();  // outputs, partial sums of squares

  if (wave != kGateWave) return;
  f32x2 y = lds_get2(lds, kO + pair);
  if (has_norm) {
    const f32x4 t = (lds_get4(lds, kPartial) + lds_get4(lds, kPartial + 4)) +
                    (lds_get4(lds, kPartial + 8) + lds_get4(lds, kPartial + 12));
    const float r = fast_rsqrt(((t[0] + t[2]) + (t[1] + t[3])) * (1.0F / kDim) + args.norm_eps);
    y *= f32x2{r, r};
    y *= norm_weight * f32x2{fast_sigmoid(low_bf16(output_gate)), fast_sigmoid(high_bf16(output_gate))};
  }
  store_pair<kAligned>(output + pair, pack_bf16(y[0], y[1]));
}

}  // namespace

SILT_KERNEL(kda_decode_hip_heads_f32, Params, 256, 4) { decode<Fp32State<true>, true>(args); }
SILT_KERNEL(kda_decode_hip_heads_f32_any, Params, 256, 4) { decode<Fp32State<false>, false>(args); }
SILT_KERNEL(kda_decode_hip_heads_bf16, Params, 256, 4) { decode<Bf16State<true>, true>(args); }
SILT_KERNEL(kda_decode_hip_heads_bf16_any, Params, 256, 4) { decode<Bf16State<false>, false>(args); }

}  // namespace silt::kda_decode_hip
