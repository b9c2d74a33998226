// What: rms_norm_gated (contract.md) on AMD CDNA 3 and 4: hip_gfx942_rows and hip_gfx950_rows, one source.
//
// When: bf16 gate; x and output bf16 or fp32; any strides and alignment.
//
// Plan: 16 lanes per (row, head), eight columns a lane, 16 heads a workgroup of 256 threads.
//
// Data path: x, gate and weight once, whole vectors where aligned; output once. No local memory, no barrier.
//
// Bytes: x, gate and output once (cost.cpp): 768 per head with bf16.
//
// Roofline (derived; this kernel has never been timed): bandwidth; at decode sizes the launch itself. It is the last
// launch of the unfused chain, which the fused kda_decode saves.
//
// Rounding: fp32, one rounding.
#include "gpu/hip/device.hpp"
#include "kda/gated_norm/hip/params.hpp"
#include "kda/shared/hip/delta_rule.hpp"

namespace silt::rms_norm_gated_hip {
namespace {

constexpr uint32_t kColumns = kda_hip::kDim / kItemLanes;  // of a lane

struct Eight {
  f32x4 a, b;
};

template <bool kAligned>
SILT_DEVICE Eight load_eight(Global<const uint16_t> p) {
  Eight v;
  if constexpr (kAligned) {
    const u32x4 packed = load<u32x4>(p);
    kda_hip::Bf16State<true>::unpack(packed, v.a, v.b);
  } else {
    kda_hip::Bf16State<false>::unpack(kda_hip::Bf16State<false>::load_row(p), v.a, v.b);
  }
  return v;
}
template <bool kAligned>
SILT_DEVICE Eight load_eight(Global<const float> p) {
  if constexpr (kAligned) {
    return {load<f32x4>(p), load<f32x4>(p + 4)};
  } else {
    return {kda_hip::Fp32State<false>::load_half(p), kda_hip::Fp32State<false>::load_half(p + 4)};
  }
}
template <bool kAligned>
SILT_DEVICE void store_eight(Global<uint16_t> p, const Eight& v) {
  const u32x4 packed = {pack_bf16(v.a[0], v.a[1]), pack_bf16(v.a[2], v.a[3]), pack_bf16(v.b[0], v.b[1]),
                        pack_bf16(v.b[2], v.b[3])};
  if constexpr (kAligned) {
    store(p, packed);
  } else {
    for (uint32_t i = 0; i < 4; ++i) store_pair<false>(p + 2 * i, packed[i]);
  }
}
template <bool kAligned>
SILT_DEVICE void store_eight(Global<float> p, const Eight& v) {
  if constexpr (kAligned) {
    store(p, v.a);
    store(p + 4, v.b);
  } else {
    kda_hip::Fp32State<false>::store_half(p, v.a);
    kda_hip::Fp32State<false>::store_half(p + 4, v.b);
  }
}

SILT_DEVICE f32x4 opened(f32x4 gate, bool with_silu) {
  f32x4 out;
  for (uint32_t i = 0; i < 4; ++i) {
    const float g = gate[i];
    const float s = fast_sigmoid(g);
    out[i] = with_silu ? g * s : s;
  }
  return out;
}

template <class X, class Output, bool kAligned>
SILT_DEVICE void normalise(const Params& args) {
  const uint32_t item = group_id() * kItemsPerGroup + thread_id() / kItemLanes;
  const bool exists = item < args.items;
  const uint32_t number = exists ? item : args.items - 1;  // every lane takes part in the moves of its wave
  const auto [row, head] = kda_hip::divide(number, args.heads, args.heads_reciprocal);
  const uint32_t column = thread_id() % kItemLanes * kColumns;
  const int64_t first = static_cast<int64_t>(head) * kda_hip::kDim + column;
  const Eight x = load_eight<kAligned>(static_cast<Global<const X>>(args.x) + row * args.x_stride + first);
  const Eight gate = load_eight<kAligned>(args.gate + row * args.gate_stride + first);
  const Eight weight = load_eight<kAligned>(args.weight + column);
  const float mean = sum16(dot8(x.a, x.b, x.a, x.b)) * (1.0F / kda_hip::kDim);
  const f32x4 scale = splat(fast_rsqrt(mean + args.eps));
  const bool with_silu = args.silu != 0;
  const Eight y = {(x.a * scale) * (weight.a * opened(gate.a, with_silu)),
                   (x.b * scale) * (weight.b * opened(gate.b, with_silu))};
  if (exists) store_eight<kAligned>(static_cast<Global<Output>>(args.output) + row * args.output_stride + first, y);
}

}  // namespace

SILT_KERNEL(rms_norm_gated_hip_rows_f32_f32, Params, 256, 8) { normalise<float, float, true>(args); }
SILT_KERNEL(rms_norm_gated_hip_rows_f32_f32_any, Params, 256, 8) { normalise<float, float, false>(args); }
SILT_KERNEL(rms_norm_gated_hip_rows_f32_bf16, Params, 256, 8) { normalise<float, uint16_t, true>(args); }
SILT_KERNEL(rms_norm_gated_hip_rows_f32_bf16_any, Params, 256, 8) { normalise<float, uint16_t, false>(args); }
SILT_KERNEL(rms_norm_gated_hip_rows_bf16_f32, Params, 256, 8) { normalise<uint16_t, float, true>(args); }
SILT_KERNEL(rms_norm_gated_hip_rows_bf16_f32_any, Params, 256, 8) { normalise<uint16_t, float, false>(args); }
SILT_KERNEL(rms_norm_gated_hip_rows_bf16_bf16, Params, 256, 8) { normalise<uint16_t, uint16_t, true>(args); }
SILT_KERNEL(rms_norm_gated_hip_rows_bf16_bf16_any, Params, 256, 8) { normalise<uint16_t, uint16_t, false>(args); }

}  // namespace silt::rms_norm_gated_hip
