// What: kda_recurrence (contract.md) in one launch on AMD CDNA 3 and 4: hip_gfx942_rows and hip_gfx950_rows, one
// source.
//
// When: bf16 gates; q, k, v and output bf16 or fp32, state fp32 or bf16; any head count, lengths, tables of slots,
// strides and alignment of the contract.
//
// Plan: one workgroup of 256 threads (four waves) per (sequence, head), heads fastest. The state stays in registers, in
// fp32, from the first token to the last: 64 of a lane's (delta_rule.hpp says whose).
//
// Data path: slot; the first token's inputs; state, past the caches (nt). Then per token: waves 0..2 bring q, k and v,
// wave 3 the gates, to local memory (two buffers in turn, so that one barrier a token is enough: a buffer is filled
// again only behind the barrier that follows its last reader); the next token's inputs are loaded before this token's
// rows are worked on; outputs leave from the lanes that have them. A lane reads and writes the same elements of every
// slot, and has read before it writes.
//
// Bytes: the state once each way, with a table written once per token that has a column; q, k, v, gate, beta and output
// once (cost.cpp).
//
// Roofline (derived; this kernel has never been timed): for one token a sequence that of kda_decode's kernel with three
// workgroups a CU, 192 KB of fp32 state in flight per CU against the 35 (MI300X) and 62 KB (MI355X) needed. Many tokens
// are a chain of steps between barriers, in which the state does not move.
//
// Rounding: fp32 until the stored state and the output; sums as in kda_decode's kernel.
#include "gpu/hip/device.hpp"
#include "kda/recurrence/hip/params.hpp"
#include "kda/shared/hip/delta_rule.hpp"

namespace silt::kda_recurrence_hip {
namespace {

using namespace kda_hip;

/// A token's buffer in local memory, in floats; two of them.
enum : uint32_t { kQ = 0, kK = kDim, kV = 2 * kDim, kDecay = 3 * kDim, kBeta = 4 * kDim, kBuffer = kBeta + 4 };

SILT_DEVICE uint32_t buffer_of(int32_t row) { return (static_cast<uint32_t>(row) % 2) * kBuffer; }

SILT_DEVICE void store_output(const Params& args, int64_t at, float value) {
  if (args.output_is_f32 != 0) {
    store(static_cast<Global<float>>(args.output) + at, value);
  } else {
    store(static_cast<Global<uint16_t>>(args.output) + at, static_cast<uint16_t>(pack_bf16(value, 0.0F)));
  }
}

SILT_DEVICE bool is_live(const Params& args, int32_t slot) { return slot > args.null_slot && slot < args.slots; }

/// Where the sequence's state is read; -1, which is padding by every rule, where the count is outside the table.
SILT_DEVICE int32_t source_slot(const Params& args, uint32_t sequence) {
  if (args.accepted == nullptr) return args.indices[sequence];
  const int32_t accepted = args.accepted[sequence];
  if (accepted < 1 || accepted > args.columns) return -1;
  return args.indices[sequence * args.columns + accepted - 1];
}
/// Where the state behind token number `index` goes; a padding index where it is not stored.
SILT_DEVICE int32_t target_slot(const Params& args, uint32_t sequence, int32_t index, bool last, int32_t slot) {
  if (args.accepted == nullptr) return last ? slot : -1;
  return index < args.columns ? args.indices[sequence * args.columns + index] : -1;
}

/// What a lane brings for a token, as stored. Every wave loads everything, so that no load stands under a branch, whose
/// end would wait for it: with bf16 q, k and v a wave's two channels of its own tensor, the gate being one of four;
/// with fp32 those of q, k or v (v in the gate's wave, unused) and of the gate.
template <class Qkv>
struct Brought;
template <>
struct Brought<uint16_t> {
  uint32_t own;
  uint16_t beta;
  SILT_DEVICE f32x2 values() const { return widen(late(own)); }
  SILT_DEVICE f32x2 gate() const { return widen(late(own)); }
};
template <>
struct Brought<float> {
  f32x2 own;
  uint32_t raw_gate;
  uint16_t beta;
  SILT_DEVICE f32x2 values() const { return late(own); }
  SILT_DEVICE f32x2 gate() const { return widen(late(raw_gate)); }
};

/// Where a lane stands, for loads and local memory.
template <class Qkv, bool kAligned>
struct Bringer {
  const Params& args;
  Lds lds;
  uint32_t head, wave, pair;

  SILT_DEVICE Brought<Qkv> load_token(int64_t row) const {
    const uint32_t first = head * kDim;
    const Global<const uint16_t> gate = args.raw_gate + row * args.gate_stride + first;
    const auto of_wave = [&](Global<const void> tensor, int64_t stride) {
      return static_cast<Global<const Qkv>>(tensor) + row * stride + first;
    };
    Global<const Qkv> own = wave == 0   ? of_wave(args.q, args.q_stride)
                            : wave == 1 ? of_wave(args.k, args.k_stride)
                                        : of_wave(args.v, args.v_stride);
    Brought<Qkv> brought;
    brought.beta = load<uint16_t>(args.raw_beta + row * args.beta_stride + head);
    if constexpr (sizeof(Qkv) == 2) {
      if (wave == kGateWave) own = gate;
    } else {
      brought.raw_gate = load_pair<kAligned>(scalar_base<const uint16_t>(gate) + pair);
    }
    brought.own = load_pair<kAligned>(scalar_base<const Qkv>(own) + pair);
    return brought;
  }
  SILT_DEVICE void put_token(uint32_t buffer, const Brought<Qkv>& token, f32x2 dt_bias, float a) const {
    if (wave == kGateWave) {
      const f32x2 gate = token.gate() + dt_bias;
      const bool softplus_gate = args.softplus_gate != 0;
      lds_put2(lds, buffer + kDecay + pair,
               f32x2{decay_of(gate[0], a, args.lower_bound, softplus_gate),
                     decay_of(gate[1], a, args.lower_bound, softplus_gate)});
      if (pair == 0) lds_put(lds, buffer + kBeta, fast_sigmoid(low_bf16(late(token.beta))));
      return;
    }
    // An infinite q or k becomes NaN: a reciprocal root of 0 then means that finite squares overflowed, nothing else.
    f32x2 z = token.values();
    if (wave != kValueWave) z = fma2(z, f32x2{0.0F, 0.0F}, z);
    lds_put2(lds, buffer + wave * kDim + pair, z);
  }
};

template <class State, class Qkv, bool kAligned>
SILT_DEVICE void recur(const Params& args) {
  using Element = typename State::Element;
  const Lds lds = lds_floats<static_cast<int>(2 * kBuffer)>();
  const RowAndHead item = divide(group_id(), args.heads, args.heads_reciprocal);
  const uint32_t sequence = item.row;
  const uint32_t head = item.head;
  const int32_t begin = args.offsets == nullptr ? static_cast<int32_t>(sequence) : args.offsets[sequence];
  const int32_t end = args.offsets == nullptr ? begin + 1 : args.offsets[sequence + 1];
  if (begin >= end) return;
  const int32_t slot = source_slot(args, sequence);
  if (!is_live(args, slot)) {  // the same for the whole workgroup
    if (thread_id() >= kDim) return;
    for (int64_t row = begin; row < end; ++row) {
      store_output(args, row * args.output_stride + head * kDim + thread_id(), 0.0F);
    }
    return;
  }

  const uint32_t lane = thread_id() % kWaveLanes;
  const uint32_t wave = uniform(thread_id() / kWaveLanes);
  const uint32_t group = lane / kLanesPerRow;
  const uint32_t column = lane % kLanesPerRow;
  const Bringer<Qkv, kAligned> bringer{args, lds, head, wave, 2 * lane};
  const auto state_of = [&](int64_t number) {
    return static_cast<Global<Element>>(args.state) + number * args.state_slot_stride +
           (static_cast<int64_t>(head) * kDim + wave * kRowsPerWave) * kDim;
  };
  Brought<Qkv> next = bringer.load_token(begin);
  const f32x2 dt_bias = load_pair<kAligned>(args.dt_bias + head * kDim + 2 * lane);
  schedule_fence();
  const uint32_t mine = group * kDim + column * State::kFirstColumn;
  const Global<Element> from = state_of(slot);
  typename State::Packed held[kPasses];
  SILT_UNROLL
  for (uint32_t p = 0; p < kPasses; ++p) {
    held[p] = State::load_row(scalar_base<Element>(from + p * kRowsPerPass * kDim) + mine);
  }
  schedule_fence();
  const float a = fast_exp(args.a_log[head]);
  // The first token stands before the loop: inside, its wait would be for everything that an earlier turn may have
  // left.
  bringer.put_token(buffer_of(begin), next, dt_bias, a);
  lds_barrier();  // q, k, v, decay, beta
  f32x4 sa[kPasses], sb[kPasses];
  SILT_UNROLL
  for (uint32_t p = 0; p < kPasses; ++p) State::unpack_late(held[p], sa[p], sb[p]);

  for (int32_t row = begin;; ++row) {
    const uint32_t buffer = buffer_of(row);
    // Behind the last token the last again, for the same reason.
    next = bringer.load_token(row + 1 < end ? row + 1 : row);
    const int32_t target = target_slot(args, sequence, row - begin, row + 1 == end, slot);
    const HeadColumns here =
        head_columns<State>(lds, column, {buffer + kQ, buffer + kK, buffer + kDecay, buffer + kBeta});
    float o_mine = 0.0F;
    SILT_UNROLL
    for (uint32_t p = 0; p < kPasses; ++p) {
      const float v = lds_get(lds, buffer + kV + wave * kRowsPerWave + p * kRowsPerPass + group);
      const float o = update_row(here, v, sa[p], sb[p]);
      o_mine = column == p ? o : o_mine;
      if (p % 2 == 1) schedule_fence();
    }
    if (column < kPasses) {
      const uint32_t state_row = wave * kRowsPerWave + column * kRowsPerPass + group;
      store_output(args, row * args.output_stride + head * kDim + state_row, o_mine);
    }
    if (is_live(args, target)) {
      const Global<Element> to = state_of(target);
      SILT_UNROLL
      for (uint32_t p = 0; p < kPasses; ++p) {
        State::store_row(scalar_base<Element>(to + p * kRowsPerPass * kDim) + mine, sa[p], sb[p]);
      }
    }
    if (row + 1 == end) return;
    bringer.put_token(buffer_of(row + 1), next, dt_bias, a);
    lds_barrier();
  }
}

}  // namespace

SILT_KERNEL(kda_recurrence_hip_rows_f32_f32, Params, 256, 3) { recur<Fp32State<true>, float, true>(args); }
SILT_KERNEL(kda_recurrence_hip_rows_f32_f32_any, Params, 256, 3) { recur<Fp32State<false>, float, false>(args); }
SILT_KERNEL(kda_recurrence_hip_rows_f32_bf16, Params, 256, 3) { recur<Fp32State<true>, uint16_t, true>(args); }
SILT_KERNEL(kda_recurrence_hip_rows_f32_bf16_any, Params, 256, 3) { recur<Fp32State<false>, uint16_t, false>(args); }
SILT_KERNEL(kda_recurrence_hip_rows_bf16_f32, Params, 256, 3) { recur<Bf16State<true>, float, true>(args); }
SILT_KERNEL(kda_recurrence_hip_rows_bf16_f32_any, Params, 256, 3) { recur<Bf16State<false>, float, false>(args); }
SILT_KERNEL(kda_recurrence_hip_rows_bf16_bf16, Params, 256, 3) { recur<Bf16State<true>, uint16_t, true>(args); }
SILT_KERNEL(kda_recurrence_hip_rows_bf16_bf16_any, Params, 256, 3) { recur<Bf16State<false>, uint16_t, false>(args); }

}  // namespace silt::kda_recurrence_hip
