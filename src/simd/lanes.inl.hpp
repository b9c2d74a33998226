// Sixteen fp32 lanes on every target, and 32 columns of bf16 or fp32 as two of them.
//
// Lanes is one AVX-512 register, two of AVX2, four of NEON. Kernels count in Lanes, never in registers, so that a sum
// has the same sixteen partial sums on every target, and the same bits: all targets have fused multiply-add, all
// reductions are one fixed tree, and the functions of math.inl.hpp are polynomials in these operations.
//
// Pair is 32 neighbouring columns. From bf16 it is the even columns and the odd columns, because that order costs a
// shift and a mask, with no lane crossing, and one pack instruction back; from fp32 it is columns 0..15 and 16..31.
// Element-wise work and sums need not know; weights that meet a Pair are loaded in the order of the activation type.
#pragma once

#include <bit>
#include <cstdint>

#include "silt/dtype.hpp"

#include "simd/target.hpp"

SILT_SIMD_BEGIN;
namespace silt::SILT_SIMD_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kLanes = 16;
constexpr int kPairColumns = 2 * kLanes;

using FloatTag = hn::ScalableTag<float>;
using WordTag = hn::ScalableTag<uint32_t>;
using FloatVector = hn::Vec<FloatTag>;
using WordVector = hn::Vec<WordTag>;
constexpr int kStep = HWY_LANES(float);  ///< fp32 lanes of one register
constexpr int kParts = kLanes / kStep;

// An operand of inline assembly that may be in any vector register.
#if HWY_TARGET == HWY_AVX3
#define SILT_VECTOR_OPERAND "+v"
#else
#define SILT_VECTOR_OPERAND "+x"
#endif

#define SILT_EACH_PART _Pragma("GCC unroll 4") for (int i = 0; i < kParts; ++i)
#define SILT_EACH_OF(n) _Pragma("GCC unroll 16") for (int i = 0; i < (n); ++i)

/// Registers that go through the same operations. One exponential and division take some 90 cycles from end to end, and
/// a core looks ahead fewer operations than fill them: several Lanes go through long functions step by step.
template <int kCount>
struct Group {
  FloatVector part[kCount];
};
using Lanes = Group<kParts>;

/// Lanes that go through a function together: 8 registers where there are 32, 4 where there are 16, because an operand
/// and a result of each are live at once.
constexpr int kTogether = kParts == 1 ? 8 : 2;
constexpr int kSeveral = kTogether * kParts;
using Several = Group<kSeveral>;
#define SILT_EACH_TOGETHER _Pragma("GCC unroll 8") for (int r = 0; r < kTogether; ++r)

SILT_INLINE void put(Several& several, int r, Lanes x) { SILT_EACH_PART several.part[r * kParts + i] = x.part[i]; }
SILT_INLINE Lanes take(const Several& several, int r) {
  Lanes x;
  SILT_EACH_PART x.part[i] = several.part[r * kParts + i];
  return x;
}

struct Pair {
  Lanes first;
  Lanes second;
};

template <int kCount = kParts>
SILT_INLINE Group<kCount> broadcast(float value) {
  Group<kCount> r;
  SILT_EACH_OF(kCount) r.part[i] = hn::Set(FloatTag(), value);
  return r;
}
SILT_INLINE Lanes zero() {
  Lanes r;
  SILT_EACH_PART r.part[i] = hn::Zero(FloatTag());
  return r;
}
SILT_INLINE Lanes load(const float* from) {
  Lanes r;
  SILT_EACH_PART r.part[i] = hn::LoadU(FloatTag(), from + i * kStep);
  return r;
}
SILT_INLINE void store(float* to, Lanes a) { SILT_EACH_PART hn::StoreU(a.part[i], FloatTag(), to + i * kStep); }

template <int kCount>
SILT_INLINE Group<kCount> add(Group<kCount> a, Group<kCount> b) {
  SILT_EACH_OF(kCount) a.part[i] = hn::Add(a.part[i], b.part[i]);
  return a;
}
template <int kCount>
SILT_INLINE Group<kCount> subtract(Group<kCount> a, Group<kCount> b) {
  SILT_EACH_OF(kCount) a.part[i] = hn::Sub(a.part[i], b.part[i]);
  return a;
}
template <int kCount>
SILT_INLINE Group<kCount> multiply(Group<kCount> a, Group<kCount> b) {
  SILT_EACH_OF(kCount) a.part[i] = hn::Mul(a.part[i], b.part[i]);
  return a;
}
template <int kCount>
SILT_INLINE Group<kCount> divide(Group<kCount> a, Group<kCount> b) {
  SILT_EACH_OF(kCount) a.part[i] = hn::Div(a.part[i], b.part[i]);
  return a;
}
/// a * b + c, rounded once.
template <int kCount>
SILT_INLINE Group<kCount> multiply_add(Group<kCount> a, Group<kCount> b, Group<kCount> c) {
  SILT_EACH_OF(kCount) c.part[i] = hn::MulAdd(a.part[i], b.part[i], c.part[i]);
  return c;
}
/// c - a * b, rounded once.
template <int kCount>
SILT_INLINE Group<kCount> multiply_subtract_from(Group<kCount> a, Group<kCount> b, Group<kCount> c) {
  SILT_EACH_OF(kCount) c.part[i] = hn::NegMulAdd(a.part[i], b.part[i], c.part[i]);
  return c;
}
namespace detail {
// NaN where `variable` is NaN: x86 returns its second operand then. On AArch64 Highway has the instructions that return
// the other operand, so that these are the ones that return the NaN.
#if HWY_TARGET == HWY_NEON
SILT_INLINE FloatVector larger(FloatVector limit, FloatVector variable) {
  return FloatVector(vmaxq_f32(limit.raw, variable.raw));
}
SILT_INLINE FloatVector smaller(FloatVector limit, FloatVector variable) {
  return FloatVector(vminq_f32(limit.raw, variable.raw));
}
#else
SILT_INLINE FloatVector larger(FloatVector limit, FloatVector variable) { return hn::Max(limit, variable); }
SILT_INLINE FloatVector smaller(FloatVector limit, FloatVector variable) { return hn::Min(limit, variable); }
#endif
}  // namespace detail

/// The larger of the two; NaN where `variable` is NaN.
template <int kCount>
SILT_INLINE Group<kCount> at_least(float limit, Group<kCount> variable) {
  SILT_EACH_OF(kCount) variable.part[i] = detail::larger(hn::Set(FloatTag(), limit), variable.part[i]);
  return variable;
}
/// The smaller of the two; NaN where `variable` is NaN.
template <int kCount>
SILT_INLINE Group<kCount> at_most(float limit, Group<kCount> variable) {
  SILT_EACH_OF(kCount) variable.part[i] = detail::smaller(hn::Set(FloatTag(), limit), variable.part[i]);
  return variable;
}
template <int kCount>
SILT_INLINE Group<kCount> square_root(Group<kCount> a) {
  SILT_EACH_OF(kCount) a.part[i] = hn::Sqrt(a.part[i]);
  return a;
}
template <int kCount>
SILT_INLINE Group<kCount> negate(Group<kCount> a) {
  SILT_EACH_OF(kCount) a.part[i] = hn::Neg(a.part[i]);
  return a;
}
template <int kCount>
SILT_INLINE Group<kCount> magnitude(Group<kCount> a) {
  SILT_EACH_OF(kCount) a.part[i] = hn::Abs(a.part[i]);
  return a;
}

/// The sum of sixteen lanes by halves: i + (i + 8), then 4, 2, 1.
SILT_INLINE float sum(Lanes a) {
#if HWY_TARGET == HWY_NEON
  const auto eight_low = hn::Add(a.part[0], a.part[2]);
  const auto eight_high = hn::Add(a.part[1], a.part[3]);
  const auto four = hn::Add(eight_low, eight_high);
#else
  const hn::FixedTag<float, 4> tag4;
#if HWY_TARGET == HWY_AVX2
  const auto eight = hn::Add(a.part[0], a.part[1]);
#else
  const hn::FixedTag<float, 8> tag8;
  const auto eight = hn::Add(hn::LowerHalf(tag8, a.part[0]), hn::UpperHalf(tag8, a.part[0]));
#endif
  const auto four = hn::Add(hn::LowerHalf(tag4, eight), hn::UpperHalf(tag4, eight));
#endif
  const auto two = hn::Add(four, hn::Shuffle1032(four));
  return hn::GetLane(hn::Add(two, hn::Shuffle2301(two)));
}

#if HWY_TARGET == HWY_AVX2
namespace detail {
SILT_INLINE __m256 add_parts(Lanes a) { return _mm256_add_ps(a.part[0].raw, a.part[1].raw); }
/// Four sums of x, then four of y: element i and element i + 4.
SILT_INLINE __m256 halved(__m256 x, __m256 y) {
  return _mm256_add_ps(_mm256_permute2f128_ps(x, y, 0x20), _mm256_permute2f128_ps(x, y, 0x31));
}
}  // namespace detail
#endif

/// The sums of four Lanes, each by the tree of `sum`, in less than half the instructions.
SILT_INLINE void sums(Lanes a, Lanes b, Lanes c, Lanes d, float* to) {
#if HWY_TARGET == HWY_AVX3
  // By halves of 8: [a | b] and [c | d]; by halves of 4: [a | b | c | d]; then inside the quarters.
  const __m512 x[] = {a.part[0].raw, b.part[0].raw, c.part[0].raw, d.part[0].raw};
  const __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(x[0], x[1], 0x44), _mm512_shuffle_f32x4(x[0], x[1], 0xee));
  const __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(x[2], x[3], 0x44), _mm512_shuffle_f32x4(x[2], x[3], 0xee));
  const __m512 four = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
  const __m512 two = _mm512_add_ps(four, _mm512_permute_ps(four, 0x4e));
  const __m512 one = _mm512_add_ps(two, _mm512_permute_ps(two, 0xb1));
  const __m512i places = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 8, 4, 0);
  _mm_storeu_ps(to, _mm512_castps512_ps128(_mm512_permutexvar_ps(places, one)));
#elif HWY_TARGET == HWY_AVX2
  // By halves of 8: the parts; by halves of 4: [a | b] and [c | d]; then inside the halves.
  const __m256 ab = detail::halved(detail::add_parts(a), detail::add_parts(b));
  const __m256 cd = detail::halved(detail::add_parts(c), detail::add_parts(d));
  const __m256 two = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
  const __m256 one = _mm256_add_ps(_mm256_shuffle_ps(two, two, 0x88), _mm256_shuffle_ps(two, two, 0xdd));
  _mm_storeu_ps(to, _mm_unpacklo_ps(_mm256_castps256_ps128(one), _mm256_extractf128_ps(one, 1)));
#else
  to[0] = sum(a);
  to[1] = sum(b);
  to[2] = sum(c);
  to[3] = sum(d);
#endif
}

// ---- bf16. A Packed is 32 columns as they lie in memory.
struct PackedBf16 {
  WordVector part[kParts];
};

namespace detail {
constexpr uint32_t kUpperHalf = 0xffff0000u;

/// The fp32 bits with the upper half rounded to nearest even; the lower half is left over. NaN stays NaN.
/// (Highway 1.0.3's own demotion to bf16 truncates.)
SILT_INLINE WordVector round_upper_half(FloatVector value) {
  const WordTag words;
  const auto u = hn::BitCast(words, value);
  const auto odd = hn::And(hn::ShiftRight<16>(u), hn::Set(words, 1));
  const auto rounded = hn::Add(u, hn::Add(odd, hn::Set(words, 0x7fff)));
  const auto nan = hn::MaskFromVec(hn::BitCast(words, hn::VecFromMask(FloatTag(), hn::IsNaN(value))));
  return hn::IfThenElse(nan, hn::Or(u, hn::Set(words, 0x400000)), rounded);
}
}  // namespace detail

SILT_INLINE PackedBf16 load_packed(const bf16* from) {
  PackedBf16 r;
  SILT_EACH_PART {
    r.part[i] = hn::LoadU(WordTag(), reinterpret_cast<const uint32_t*>(from) + i * kStep);
#if defined(__x86_64__)
    // Keeps the value in a register: GCC would load it once for the even and once more for the odd columns, and loops
    // here are short of load slots.
    asm("" : SILT_VECTOR_OPERAND(r.part[i].raw));
#endif
  }
  return r;
}
SILT_INLINE void store_packed(bf16* to, PackedBf16 a) {
  SILT_EACH_PART hn::StoreU(a.part[i], WordTag(), reinterpret_cast<uint32_t*>(to) + i * kStep);
}
/// A store past the caches; `to` is aligned to 64 bytes, and a fence follows before others read (stream_fence).
SILT_INLINE void stream_packed(bf16* to, PackedBf16 a) {
  SILT_EACH_PART hn::Stream(a.part[i], WordTag(), reinterpret_cast<uint32_t*>(to) + i * kStep);
}
SILT_INLINE Pair unpack(PackedBf16 a) {
  Pair r;
  SILT_EACH_PART {
    r.first.part[i] = hn::BitCast(FloatTag(), hn::ShiftLeft<16>(a.part[i]));
    r.second.part[i] = hn::BitCast(FloatTag(), hn::And(a.part[i], hn::Set(WordTag(), detail::kUpperHalf)));
  }
  return r;
}

/// Part `i` of the Pair at `from`, for loops whose sums fill the registers part by part.
struct PairPart {
  FloatVector first;
  FloatVector second;
};
SILT_INLINE PairPart load_pair_part(const bf16* from, int i) {
  auto words = hn::LoadU(WordTag(), reinterpret_cast<const uint32_t*>(from) + i * kStep);
#if defined(__x86_64__)
  asm("" : SILT_VECTOR_OPERAND(words.raw));  // as in load_packed
#endif
  return {hn::BitCast(FloatTag(), hn::ShiftLeft<16>(words)),
          hn::BitCast(FloatTag(), hn::And(words, hn::Set(WordTag(), detail::kUpperHalf)))};
}
SILT_INLINE PairPart load_pair_part(const float* from, int i) {
  PairPart r = {hn::LoadU(FloatTag(), from + i * kStep), hn::LoadU(FloatTag(), from + kLanes + i * kStep)};
#if defined(__x86_64__)
  asm("" : SILT_VECTOR_OPERAND(r.first.raw), SILT_VECTOR_OPERAND(r.second.raw));  // one load for all its uses
#endif
  return r;
}

/// Rounds to nearest even. The BF16 instruction flushes denormals to zero; workers do so anyway (core/workers.hpp), so
/// that a kernel has the same bits with and without it.
SILT_INLINE PackedBf16 pack_bf16(Pair a) {
  PackedBf16 r;
#if SILT_SIMD_TARGET == SILT_SIMD_AVX512BF16
  // One conversion leaves the first half of the result to `first`; one permute brings the columns into their order.
  alignas(64) static constexpr uint16_t kInterleave[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                           21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                           11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const auto halves = _mm512_cvtne2ps_pbh(a.second.part[0].raw, a.first.part[0].raw);
  r.part[0].raw = _mm512_permutexvar_epi16(_mm512_load_si512(kInterleave), reinterpret_cast<__m512i>(halves));
#else
  SILT_EACH_PART {
    const auto even = hn::ShiftRight<16>(detail::round_upper_half(a.first.part[i]));
    const auto odd = hn::And(detail::round_upper_half(a.second.part[i]), hn::Set(WordTag(), detail::kUpperHalf));
    r.part[i] = hn::Or(even, odd);
  }
#endif
  return r;
}

/// pack_bf16 for values computed from widened bf16 alone: a NaN among them, taken over or made by an operation, has a
/// clear lower half, which rounding cannot carry out of. Half the instructions where there is no BF16 instruction.
SILT_INLINE PackedBf16 pack_bf16_widened(Pair a) {
#if SILT_SIMD_TARGET == SILT_SIMD_AVX512BF16
  return pack_bf16(a);
#else
  const WordTag words;
  const hn::Repartition<uint16_t, WordTag> halves;
  const auto one = hn::Set(words, 1);
  const auto below_half = hn::Set(words, 0x7fff);
  PackedBf16 r;
  SILT_EACH_PART {
    const auto even = hn::BitCast(words, a.first.part[i]);
    const auto odd = hn::BitCast(words, a.second.part[i]);
    const auto even_up = hn::Add(hn::Add(even, below_half), hn::And(hn::ShiftRight<16>(even), one));
    const auto odd_up = hn::Add(hn::Add(odd, below_half), hn::And(hn::ShiftRight<16>(odd), one));
    r.part[i] =
        hn::BitCast(words, hn::OddEven(hn::BitCast(halves, odd_up), hn::BitCast(halves, hn::ShiftRight<16>(even_up))));
  }
  return r;
#endif
}

// ---- one name for both activation types
template <class Act>
struct PackedOf;
template <>
struct PackedOf<bf16> {
  using Type = PackedBf16;
};
template <>
struct PackedOf<float> {
  using Type = Pair;
};
template <class Act>
using Packed = typename PackedOf<Act>::Type;

SILT_INLINE Pair load_packed(const float* from) { return {load(from), load(from + kLanes)}; }
SILT_INLINE void store_packed(float* to, Pair a) {
  store(to, a.first);
  store(to + kLanes, a.second);
}
SILT_INLINE void stream_packed(float* to, Pair a) {
  SILT_EACH_PART hn::Stream(a.first.part[i], FloatTag(), to + i * kStep);
  SILT_EACH_PART hn::Stream(a.second.part[i], FloatTag(), to + kLanes + i * kStep);
}
SILT_INLINE Pair unpack(Pair a) { return a; }

template <class Act>
SILT_INLINE Packed<Act> pack(Pair a) {
  if constexpr (sizeof(Act) == 2) {
    return pack_bf16(a);
  } else {
    return a;
  }
}

/// pack for values computed from activations of this type alone (pack_bf16_widened).
template <class Act>
SILT_INLINE Packed<Act> pack_widened(Pair a) {
  if constexpr (sizeof(Act) == 2) {
    return pack_bf16_widened(a);
  } else {
    return a;
  }
}

/// sums += second * second, then first * first: each sum of squares rounded twice, in this order. That is what the BF16
/// dot product does in one instruction (its products are exact; it flushes denormals, as workers do).
SILT_INLINE Lanes add_squares(Pair a, Lanes sums) {
  return multiply_add(a.first, a.first, multiply_add(a.second, a.second, sums));
}
SILT_INLINE Lanes add_squares(PackedBf16 a, Lanes sums) {
#if SILT_SIMD_TARGET == SILT_SIMD_AVX512BF16
  const auto columns = reinterpret_cast<__m512bh>(a.part[0].raw);
  sums.part[0].raw = _mm512_dpbf16_ps(sums.part[0].raw, columns, columns);
  return sums;
#else
  return add_squares(unpack(a), sums);
#endif
}

SILT_INLINE Pair load_pair(const bf16* from) { return unpack(load_packed(from)); }
SILT_INLINE Pair load_pair(const float* from) { return load_packed(from); }
template <class Act>
SILT_INLINE void store_pair(Act* to, Pair a) {
  store_packed(to, pack<Act>(a));
}

/// 32 bf16 weights in the order that a Pair of `Act` has.
template <class Act>
SILT_INLINE Pair load_weights(const bf16* from) {
  if constexpr (sizeof(Act) == 2) {
    return load_pair(from);
  } else {
    const hn::Rebind<uint16_t, WordTag> halves;
    const auto* bits = reinterpret_cast<const uint16_t*>(from);
    Pair r;
    SILT_EACH_PART {
      const auto low = hn::PromoteTo(WordTag(), hn::LoadU(halves, bits + i * kStep));
      const auto high = hn::PromoteTo(WordTag(), hn::LoadU(halves, bits + kLanes + i * kStep));
      r.first.part[i] = hn::BitCast(FloatTag(), hn::ShiftLeft<16>(low));
      r.second.part[i] = hn::BitCast(FloatTag(), hn::ShiftLeft<16>(high));
    }
    return r;
  }
}
/// Sixteen bf16 in their own order.
SILT_INLINE Lanes load(const bf16* from) {
  const hn::Rebind<uint16_t, WordTag> halves;
  Lanes r;
  SILT_EACH_PART {
    const auto bits = hn::LoadU(halves, reinterpret_cast<const uint16_t*>(from) + i * kStep);
    r.part[i] = hn::BitCast(FloatTag(), hn::ShiftLeft<16>(hn::PromoteTo(WordTag(), bits)));
  }
  return r;
}

/// 32 columns in their own order, as a Pair of `Act`: what pack<Act> and products with a loaded Pair need.
template <class Act>
SILT_INLINE Pair pair_of_columns(Lanes low, Lanes high) {
  if constexpr (sizeof(Act) == 2) {
    Pair r;
    FloatVector columns[2 * kParts];
    SILT_EACH_PART columns[i] = low.part[i];
    SILT_EACH_PART columns[kParts + i] = high.part[i];
    SILT_EACH_PART {
      r.first.part[i] = hn::ConcatEven(FloatTag(), columns[2 * i + 1], columns[2 * i]);
      r.second.part[i] = hn::ConcatOdd(FloatTag(), columns[2 * i + 1], columns[2 * i]);
    }
    return r;
  } else {
    return {low, high};
  }
}

/// The mirror of pair_of_columns: a Pair of `Act` as 32 fp32 columns in their own order.
template <class Act>
SILT_INLINE Pair columns_of_pair(Pair a) {
  if constexpr (sizeof(Act) == 2) {
    FloatVector columns[2 * kParts];
    SILT_EACH_PART {
      const auto low = hn::InterleaveLower(FloatTag(), a.first.part[i], a.second.part[i]);
      const auto high = hn::InterleaveUpper(FloatTag(), a.first.part[i], a.second.part[i]);
#if HWY_TARGET == HWY_NEON
      columns[2 * i] = low;
      columns[2 * i + 1] = high;
#else
      // Blocks of four: low has 0, 2, 4, 6 of the columns' blocks and high has 1, 3, 5, 7 (AVX2: up to 3).
      columns[2 * i] = hn::ConcatLowerLower(FloatTag(), high, low);
      columns[2 * i + 1] = hn::ConcatUpperUpper(FloatTag(), high, low);
#if HWY_TARGET == HWY_AVX3
      columns[2 * i].raw = _mm512_shuffle_f32x4(columns[2 * i].raw, columns[2 * i].raw, 0xd8);
      columns[2 * i + 1].raw = _mm512_shuffle_f32x4(columns[2 * i + 1].raw, columns[2 * i + 1].raw, 0xd8);
#endif
#endif
    }
    Pair r;
    SILT_EACH_PART r.first.part[i] = columns[i];
    SILT_EACH_PART r.second.part[i] = columns[kParts + i];
    return r;
  } else {
    return a;
  }
}

// ---- memory
/// Asks for the line at `address` in L2. Never faults.
SILT_INLINE void prefetch_l2(const void* address) { __builtin_prefetch(address, 0, 2); }
/// Asks for the line at `address` in L1. Never faults.
SILT_INLINE void prefetch_l1(const void* address) { __builtin_prefetch(address, 0, 3); }
/// Orders streamed stores before everything that follows.
SILT_INLINE void stream_fence() { hwy::FlushStream(); }

}  // namespace silt::SILT_SIMD_NAMESPACE
SILT_SIMD_END;
