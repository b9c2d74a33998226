// What: attn_res (contract.md) in one launch on AMD CDNA 3 and 4: hip_gfx942_rows and hip_gfx950_rows, one source.
//
// When: bf16; any hidden size up to 2^30, up to 2047 blocks, any alignment and strides of the contract.
//
// Plan, held (up to 8 blocks and 8192 columns, rows aligned to 16 bytes): a wave has 512 columns of a token, a lane 8,
// so D = 7168 is 14 waves in one workgroup. Tokens of one or two waves share a workgroup of four waves, unless that
// left processors without one. Few tokens need no other schedule: a token has as many lanes as it has 16-byte pieces
// anyway, and every lane asks for all its rows at once. (Columns over several workgroups would need an exchange through
// memory, two trips of about 2 us, to spread 143 KB that one CU reads from L2 in 1.1 us at 64 bytes a clock.)
//   loads    weights, prefix and delta, then all bank rows; the output norm's weight last. vmcnt counts in the order of
//            issue, so the sums of p and of the first rows run while later rows are in flight.
//   sums     dot product and sum of squares of every source: lanes of a wave by DPP, waves by local memory.
//   softmax  lane i of every row of 16 adds up source i; largest and sum by DPP; weights spread by DPP.
//   mixture  from the rows in registers; with the output norm its squares go the way of the sums.
// Plan, else (`any`, and `wide` with 16-byte accesses): 256 threads a token walk its columns. Sums of 8 sources at a
// time, logits and weights in local memory; the mixture reads the rows again, from L2, and with the output norm once
// more. A lane reads only those columns of p that it stored itself.
//
// Data path: bank rows and delta come once and are marked so (nt); prefix, the written slot and the output, which other
// kernels read next, are not.
//
// Bytes: 2*D*(nb + 1 + 2*delta + write + 1) per token (cost.cpp).
//
// Roofline (derived; this kernel has never been timed): MI300X moves 5.3 TB/s over 304 CUs, 17 B/ns each, MI355X 8 TB/s
// over 256, 31 B/ns. At 2 us of loaded latency that needs 35 and 62 KB in flight per CU; two workgroups of 14 waves
// ask for 258 KB (nb = 8). D = 7168, nb = 8, T = 4096: 705 MB, floor 133 us and 88 us. Vector instructions per
// wave, about 700 (gfx942) and 620 (gfx950) at 4 cycles, are 4.7 and 4.1 us of a CU per token at 2.1 GHz, against 9.9
// and 5.5 us of memory.
//
// Rounding: fp32, one rounding at p and one at the output. Order of a sum: held by D and the number of blocks alone,
// columns of a lane in two partial sums, lanes, then waves one after the other.
//
// Tried (by registers and the compiler's waits): two pieces a lane and half the waves: as many bytes in flight, and
// fewer lanes for one token. Weights behind the bank rows: the first sum waits for all of them. Rows unpacked once for
// both passes: 94 registers instead of 64 with 8 blocks, one workgroup a CU instead of two. Sums of every row of 16
// lanes to local memory instead of every wave's: 36 moves less, but 42 reads and additions more in every lane.
#include "attn_res/hip/params.hpp"
#include "gpu/hip/device.hpp"

namespace silt::attn_res_hip {
namespace {

constexpr uint32_t kRowLanes = 16;

/// 8 columns as fp32 pairs.
struct Octet {
  f32x2 v[4];
};
SILT_DEVICE Octet widen8(u32x4 packed) {
  // Elements by value: bit casts of a vector's element read element 0 (amdgcn.hpp).
  const uint32_t a = packed[0], b = packed[1], c = packed[2], d = packed[3];
  return {{widen(a), widen(b), widen(c), widen(d)}};
}
SILT_DEVICE u32x4 round8(const Octet& o) {
  return u32x4{pack_bf16(o.v[0][0], o.v[0][1]), pack_bf16(o.v[1][0], o.v[1][1]), pack_bf16(o.v[2][0], o.v[2][1]),
               pack_bf16(o.v[3][0], o.v[3][1])};
}
SILT_DEVICE u32x4 round_sum(u32x4 a, u32x4 b) {
  Octet x = widen8(a);
  const Octet y = widen8(b);
  for (uint32_t i = 0; i < 4; ++i) x.v[i] = x.v[i] + y.v[i];
  return round8(x);
}

struct Sums {
  float dot, squares;
};
SILT_DEVICE Sums sums_of(u32x4 packed, const Octet& w) {
  const Octet x = widen8(packed);
  f32x2 dot = x.v[0] * w.v[0];
  f32x2 squares = x.v[0] * x.v[0];
  for (uint32_t i = 1; i < 4; ++i) {
    dot = fma2(x.v[i], w.v[i], dot);
    squares = fma2(x.v[i], x.v[i], squares);
  }
  return {dot[0] + dot[1], squares[0] + squares[1]};
}
SILT_DEVICE void add_scaled(u32x4 packed, float weight, Octet& mix) {
  const Octet x = widen8(packed);
  const f32x2 scale = {weight, weight};
  for (uint32_t i = 0; i < 4; ++i) mix.v[i] = fma2(x.v[i], scale, mix.v[i]);
}
SILT_DEVICE float squares_of(const Octet& mix) {
  f32x2 squares = mix.v[0] * mix.v[0];
  for (uint32_t i = 1; i < 4; ++i) squares = fma2(mix.v[i], mix.v[i], squares);
  return squares[0] + squares[1];
}
SILT_DEVICE Octet scaled(const Octet& mix, float scale, u32x4 packed_gain) {
  Octet out = widen8(packed_gain);
  for (uint32_t i = 0; i < 4; ++i) out.v[i] = out.v[i] * (mix.v[i] * f32x2{scale, scale});
  return out;
}

/// Softmax over a row of 16 lanes; lanes without a source have -inf.
SILT_DEVICE float softmax16(float logit) {
  const float e = fast_exp(logit - max16(logit));
  return e * fast_reciprocal(sum16(e));
}

/// Source by source from kSource on, with the weight that lane kSource of each row of 16 has. `late`: the compiler
/// would keep the rows as fp32 from the sums on, in twice the registers.
template <uint32_t kSource, uint32_t kSources>
SILT_DEVICE void add_sources(const u32x4 (&rows)[kSources], float weight, Octet& mix) {
  add_scaled(late(rows[kSource]), broadcast16<static_cast<int>(kSource)>(weight), mix);
  if constexpr (kSource + 1 < kSources) add_sources<kSource + 1>(rows, weight, mix);
}

/// Local memory of the held kernel: two sums per source and wave; then a sum of squares per wave.
constexpr uint32_t kMostWaves = kMostThreadsHeld / kWaveLanes;

SILT_DEVICE bool is_last_lane() { return thread_id() % kWaveLanes == kWaveLanes - 1; }

/// A lane's 8 columns of a token, and where the token's sums stand in local memory.
template <uint32_t kN>
struct HeldToken {
  static constexpr uint32_t kSources = kN + 1;
  static constexpr uint32_t kNorms = kMostWaves * kSources * 2;

  const Params& args;
  Lds lds;
  uint32_t first_wave;  // of the token in its workgroup
  uint32_t wave;        // this lane's
  uint32_t waves;
  bool live;

  /// Weights of all sources to `mix`: sums by waves, logits and softmax in every row of 16 lanes.
  SILT_DEVICE void mixture(const u32x4 (&sources)[kSources], const Octet& w, Octet& mix) const {
    const uint32_t lane = thread_id() % kRowLanes;
    SILT_UNROLL
    for (uint32_t n = 0; n < kSources; ++n) {
      // p first: it is there first.
      const uint32_t i = n == 0 ? kN : n - 1;
      const Sums sums = sums_of(sources[i], w);
      const f32x2 both = {sum64_last(live ? sums.dot : 0.0F), sum64_last(live ? sums.squares : 0.0F)};
      if (is_last_lane()) lds_put2(lds, 2 * (wave * kSources + i), both);
      schedule_fence();
    }
    lds_barrier();
    const uint32_t source = lane < kSources ? lane : kN;
    f32x2 total = {0.0F, 0.0F};
    for (uint32_t n = first_wave; n < first_wave + waves; ++n) {
      total = total + lds_get2(lds, 2 * (n * kSources + source));
    }
    const float logit = total[0] * fast_rsqrt(fma1(total[1], args.inverse_d, args.eps));
    const float weight = softmax16(lane < kSources ? logit : -__builtin_inff());
    mix = Octet{};
    add_sources<0>(sources, weight, mix);
  }

  /// The factor of the output norm.
  SILT_DEVICE float norm_scale(const Octet& mix) const {
    const float squares = sum64_last(live ? squares_of(mix) : 0.0F);
    if (is_last_lane()) lds_put(lds, kNorms + wave, squares);
    lds_barrier();
    float total = 0.0F;
    for (uint32_t w = first_wave; w < first_wave + waves; ++w) total += lds_get(lds, kNorms + w);
    return fast_rsqrt(fma1(total, args.inverse_d, args.output_norm_eps));
  }
};

template <uint32_t kN>
SILT_DEVICE void held(const Params& args) {
  constexpr uint32_t kSources = kN + 1;
  const Lds lds = lds_floats<static_cast<int>(HeldToken<kN>::kNorms + kMostWaves)>();
  const uint32_t wave = uniform(thread_id() / kWaveLanes);
  const uint32_t in_group = args.tokens_per_group == 1 ? 0 : wave / args.waves_per_token;
  const uint32_t index = group_id() * args.tokens_per_group + in_group;
  const bool exists = index < args.t;
  const int64_t token = exists ? index : args.t - 1;
  const uint32_t column = (thread_id() - in_group * args.waves_per_token * kWaveLanes) * kLaneColumns;
  const bool live = exists && column < args.d;
  // Lanes behind the row read its beginning, and their sums are 0. The mask changes nothing: with it the compiler knows
  // that a byte offset fits 32 bits, and keeps the rows' addresses in scalar registers.
  const uint32_t at = (column < args.d ? column : 0) & (kMostColumnsHeld - 1);

  const bool has_delta = args.delta != nullptr;
  const bool has_norm = args.output_norm_weight != nullptr;
  const Global<uint16_t> prefix = args.prefix + token * args.prefix_stride;
  const Global<const uint16_t> bank = args.blocks + token * args.block_token_stride;
  u32x4 norm_weight SILT_UNSET, qk_weight SILT_UNSET;
  if constexpr (kN > 0) {
    norm_weight = load<u32x4>(args.norm_weight + at);
    qk_weight = load<u32x4>(args.qk_weight + at);
  }
  u32x4 rows[kSources];
  const u32x4 old = load<u32x4>(prefix + at);
  // Without a delta the prefix again, which the compiler must not see: it would load under a branch, and the branch's
  // end would wait.
  const u32x4 delta =
      load_stream<u32x4>(scalar_base<const uint16_t>(has_delta ? args.delta + token * args.delta_stride : prefix) + at);
  SILT_UNROLL
  for (uint32_t i = 0; i < kN; ++i) {
    rows[i] = load_stream<u32x4>(scalar_base<const uint16_t>(bank + i * args.block_slot_stride) + at);
  }
  schedule_fence();

  rows[kN] = has_delta ? round_sum(old, delta) : old;
  if (live && has_delta) store(prefix + at, rows[kN]);
  if (live && args.written != nullptr) store(args.written + token * args.block_token_stride + at, rows[kN]);

  const HeldToken<kN> here{args, lds, in_group * args.waves_per_token, wave, args.waves_per_token, live};
  Octet mix;
  if constexpr (kN > 0) {
    Octet w = widen8(norm_weight);
    const Octet qk = widen8(qk_weight);
    for (uint32_t i = 0; i < 4; ++i) w.v[i] = w.v[i] * qk.v[i];
    here.mixture(rows, w, mix);
  } else {
    mix = widen8(rows[0]);
  }
  if (has_norm) {
    const u32x4 gain = load<u32x4>(args.output_norm_weight + at);
    mix = scaled(mix, here.norm_scale(mix), gain);
  }
  if (live) store(args.output + token * args.output_stride + at, round8(mix));
}

// ---- any shape

/// kWidth columns at once: 8 as vectors, or 1.
template <uint32_t kWidth>
struct Columns {
  static SILT_DEVICE u32x4 load_from(Global<const uint16_t> p) {
    if constexpr (kWidth == kLaneColumns) return load<u32x4>(p);
    return u32x4{load<uint16_t>(p), 0, 0, 0};
  }
  static SILT_DEVICE void store_to(Global<uint16_t> p, u32x4 v) {
    if constexpr (kWidth == kLaneColumns) {
      store(p, v);
    } else {
      store(p, static_cast<uint16_t>(v[0]));
    }
  }
};

constexpr uint32_t kChunk = 8;  // sources whose sums are made at once
constexpr uint32_t kWavesAny = kThreadsAny / kWaveLanes;
/// Local memory: logits, then weights; two sums per wave and source of a chunk; a sum of squares per wave.
enum : uint32_t { kWeights = 0, kPartials = kMostSourcesAny, kNormsAny = kPartials + kWavesAny * kChunk * 2 };

template <uint32_t kWidth>
struct AnyToken {
  using C = Columns<kWidth>;
  static constexpr uint32_t kStep = kThreadsAny * kWidth;

  const Params& args;
  Lds lds;
  Global<uint16_t> prefix;
  Global<const uint16_t> bank;
  uint32_t first;  // column of this lane

  SILT_DEVICE Global<const uint16_t> source(uint32_t i) const {
    return i == args.n ? Global<const uint16_t>(prefix) : bank + i * args.block_slot_stride;
  }

  /// p, where it belongs.
  SILT_DEVICE void update_prefix(int64_t token) const {
    for (uint32_t c = first; c < args.d; c += kStep) {
      u32x4 p = C::load_from(prefix + c);
      if (args.delta != nullptr) {
        p = round_sum(p, C::load_from(args.delta + token * args.delta_stride + c));
        C::store_to(prefix + c, p);
      }
      if (args.written != nullptr) C::store_to(args.written + token * args.block_token_stride + c, p);
    }
  }

  /// Logits of sources begin..begin+7, and what lies behind the last source again.
  SILT_DEVICE void logits(uint32_t begin) const {
    Sums sums[kChunk] = {};
    for (uint32_t c = first; c < args.d; c += kStep) {
      Octet w = widen8(C::load_from(args.norm_weight + c));
      const Octet qk = widen8(C::load_from(args.qk_weight + c));
      for (uint32_t i = 0; i < 4; ++i) w.v[i] = w.v[i] * qk.v[i];
      SILT_UNROLL
      for (uint32_t k = 0; k < kChunk; ++k) {
        const uint32_t i = begin + k <= args.n ? begin + k : args.n;
        const Sums more = sums_of(C::load_from(source(i) + c), w);
        sums[k] = {sums[k].dot + more.dot, sums[k].squares + more.squares};
      }
    }
    const uint32_t wave = thread_id() / kWaveLanes;
    SILT_UNROLL
    for (uint32_t k = 0; k < kChunk; ++k) {
      const f32x2 both = {sum64_last(sums[k].dot), sum64_last(sums[k].squares)};
      if (is_last_lane()) lds_put2(lds, kPartials + 2 * (wave * kChunk + k), both);
    }
    lds_barrier();
    if (thread_id() < kChunk && begin + thread_id() <= args.n) {
      f32x2 total = {0.0F, 0.0F};
      for (uint32_t w = 0; w < kWavesAny; ++w)
        total = total + lds_get2(lds, kPartials + 2 * (w * kChunk + thread_id()));
      lds_put(lds, kWeights + begin + thread_id(), total[0] * fast_rsqrt(fma1(total[1], args.inverse_d, args.eps)));
    }
    lds_barrier();
  }

  /// Logits in local memory become weights.
  SILT_DEVICE void softmax() const {
    float largest = lds_get(lds, kWeights);
    for (uint32_t i = 1; i <= args.n; ++i) largest = max1(largest, lds_get(lds, kWeights + i));
    float total = 0.0F;
    for (uint32_t i = 0; i <= args.n; ++i) total += fast_exp(lds_get(lds, kWeights + i) - largest);
    const float inverse = fast_reciprocal(total);
    lds_barrier();
    for (uint32_t i = thread_id(); i <= args.n; i += kThreadsAny) {
      lds_put(lds, kWeights + i, fast_exp(lds_get(lds, kWeights + i) - largest) * inverse);
    }
    lds_barrier();
  }

  SILT_DEVICE Octet mixture(uint32_t c) const {
    if (args.n == 0) return widen8(C::load_from(prefix + c));
    Octet mix{};
    for (uint32_t i = 0; i <= args.n; ++i) add_scaled(C::load_from(source(i) + c), lds_get(lds, kWeights + i), mix);
    return mix;
  }

  SILT_DEVICE float norm_scale() const {
    float squares = 0.0F;
    for (uint32_t c = first; c < args.d; c += kStep) squares += squares_of(mixture(c));
    squares = sum64_last(squares);
    if (is_last_lane()) lds_put(lds, kNormsAny + thread_id() / kWaveLanes, squares);
    lds_barrier();
    float total = 0.0F;
    for (uint32_t w = 0; w < kWavesAny; ++w) total += lds_get(lds, kNormsAny + w);
    return fast_rsqrt(fma1(total, args.inverse_d, args.output_norm_eps));
  }
};

template <uint32_t kWidth>
SILT_DEVICE void any(const Params& args) {
  using C = Columns<kWidth>;
  const int64_t token = group_id();
  const AnyToken<kWidth> here{args, lds_floats<static_cast<int>(kNormsAny + kWavesAny)>(),
                              args.prefix + token * args.prefix_stride, args.blocks + token * args.block_token_stride,
                              thread_id() * kWidth};
  here.update_prefix(token);
  if (args.n > 0) {
    for (uint32_t begin = 0; begin <= args.n; begin += kChunk) here.logits(begin);
    here.softmax();
  }
  const bool has_norm = args.output_norm_weight != nullptr;
  const float scale = has_norm ? here.norm_scale() : 0.0F;
  const Global<uint16_t> output = args.output + token * args.output_stride;
  for (uint32_t c = here.first; c < args.d; c += AnyToken<kWidth>::kStep) {
    Octet mix = here.mixture(c);
    if (has_norm) mix = scaled(mix, scale, C::load_from(args.output_norm_weight + c));
    C::store_to(output + c, round8(mix));
  }
}

}  // namespace

#define SILT_HELD(kN) \
  SILT_KERNEL_OF(attn_res_hip_rows_##kN, Params, 64, 1024, 8) { held<kN>(args); }
SILT_HELD(0)
SILT_HELD(1)
SILT_HELD(2)
SILT_HELD(3)
SILT_HELD(4)
SILT_HELD(5)
SILT_HELD(6)
SILT_HELD(7)
SILT_HELD(8)
#undef SILT_HELD
SILT_KERNEL(attn_res_hip_rows_wide, Params, 256, 4) { any<kLaneColumns>(args); }
SILT_KERNEL(attn_res_hip_rows_any, Params, 256, 4) { any<1>(args); }

}  // namespace silt::attn_res_hip
