// What: the byte movers of movers.hpp for every SIMD target of the machine, widest vectors first.
#include "bench/movers.hpp"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/movers.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h includes this file once per target, before anything below.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace silt::bench {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<uint32_t>;

constexpr int64_t kLine = 64;
constexpr int64_t kAhead = 4096;

uint32_t* words(std::byte* data) { return reinterpret_cast<uint32_t*>(data); }
const uint32_t* words(const std::byte* data) { return reinterpret_cast<const uint32_t*>(data); }

/// f(i) for every vector of a block, i in words; four per step.
template <class F>
HWY_INLINE void each_vector(int64_t bytes, F f) {
  const Tag tag;
  const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
  const int64_t count = bytes / 4;
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    f(i);
    f(i + lanes);
    f(i + 2 * lanes);
    f(i + 3 * lanes);
  }
  for (; i < count; i += lanes) f(i);
}

void CopyPlain(std::byte* target, const std::byte* source, int64_t bytes) {
  const Tag tag;
  each_vector(bytes, [&](int64_t i) HWY_ATTR { hn::Store(hn::Load(tag, words(source) + i), tag, words(target) + i); });
}

void CopyNontemporal(std::byte* target, const std::byte* source, int64_t bytes) {
  const Tag tag;
  each_vector(bytes, [&](int64_t i) HWY_ATTR { hn::Stream(hn::Load(tag, words(source) + i), tag, words(target) + i); });
  hwy::FlushStream();
}

/// Vectors of one block updated; `look` prefetches for the line at byte b.
template <class Look>
HWY_INLINE void update(std::byte* data, int64_t bytes, Look look) {
  const Tag tag;
  const auto signs = hn::Set(tag, 0x80008000u);
  const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
  for (int64_t b = 0; b < bytes; b += kLine) {
    look(b);
    for (int64_t i = b / 4; i < (b + kLine) / 4; i += lanes) {
      hn::Store(hn::Xor(hn::Load(tag, words(data) + i), signs), tag, words(data) + i);
    }
  }
}

void UpdateInPlace(std::byte* data, int64_t bytes) {
  update(data, bytes, [](int64_t) HWY_ATTR {});
}

void UpdateInPlaceAhead(std::byte* data, int64_t bytes, const std::byte* next) {
  update(data, bytes, [&](int64_t b) HWY_ATTR {
    if (b + kAhead < bytes) {
      hwy::Prefetch(data + b + kAhead);
    } else if (next != nullptr) {
      hwy::Prefetch(next + (b + kAhead - bytes));
    }
  });
}

void UpdateInPlaceNext(std::byte* data, int64_t bytes, const std::byte* next) {
  update(data, bytes, [&](int64_t b) HWY_ATTR {
    if (next != nullptr) __builtin_prefetch(next + b, 0, 2);  // into L2: L1 holds the head at hand
  });
}

uint64_t ReadOnly(const std::byte* source, int64_t bytes) {
  const Tag tag;
  const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
  auto a = hn::Zero(tag);
  auto b = a;
  const int64_t count = bytes / 4;
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    a = hn::Xor(a, hn::Load(tag, words(source) + i));
    b = hn::Xor(b, hn::Load(tag, words(source) + i + lanes));
  }
  for (; i < count; i += lanes) a = hn::Xor(a, hn::Load(tag, words(source) + i));
  return hn::GetLane(hn::SumOfLanes(tag, hn::Add(a, b)));
}

template <bool kAheadOfRows>
HWY_INLINE void move(const MovedToken& t) {
  const Tag tag;
  auto sum = hn::Zero(tag);
  for (int64_t row = 0; row < t.rows; ++row) {
    const std::byte* source = t.bank + row * t.slot_stride;
    each_vector(t.row_bytes, [&](int64_t i) HWY_ATTR {
      if (kAheadOfRows) hwy::Prefetch(source + 4 * i + t.slot_stride);
      sum = hn::Xor(sum, hn::Load(tag, words(source) + i));
    });
  }
  each_vector(t.row_bytes, [&](int64_t i) HWY_ATTR {
    const auto p = hn::Load(tag, words(t.prefix) + i);
    auto out = hn::Xor(sum, p);
    if (t.delta != nullptr) {
      out = hn::Xor(out, hn::Load(tag, words(t.delta) + i));
      hn::Store(p, tag, words(t.prefix) + i);
    }
    if (t.slot != nullptr) hn::Stream(p, tag, words(t.slot) + i);
    hn::Stream(out, tag, words(t.output) + i);
  });
}

void MoveToken(const MovedToken& token, bool ahead) {
  if (ahead) {
    move<true>(token);
  } else {
    move<false>(token);
  }
  hwy::FlushStream();
}

double MultiplyAdd(int64_t count) {
  const hn::ScalableTag<float> tag;
  // Ten chains hide a latency of four or five cycles on two units.
  constexpr size_t kChains = 10;
  // Each with a start of its own: a compiler makes one chain of equal ones.
  const auto start = [&](float value) HWY_ATTR { return hn::Set(tag, value); };
  auto x0 = start(0.50F), x1 = start(0.51F), x2 = start(0.52F), x3 = start(0.53F), x4 = start(0.54F);
  auto x5 = start(0.55F), x6 = start(0.56F), x7 = start(0.57F), x8 = start(0.58F), x9 = start(0.59F);
  const auto m = hn::Set(tag, 0.999F);
  const auto a = hn::Set(tag, 0.001F);
  int64_t done = 0;
  for (; done < count; done += static_cast<int64_t>(kChains)) {
    x0 = hn::MulAdd(x0, m, a);
    x1 = hn::MulAdd(x1, m, a);
    x2 = hn::MulAdd(x2, m, a);
    x3 = hn::MulAdd(x3, m, a);
    x4 = hn::MulAdd(x4, m, a);
    x5 = hn::MulAdd(x5, m, a);
    x6 = hn::MulAdd(x6, m, a);
    x7 = hn::MulAdd(x7, m, a);
    x8 = hn::MulAdd(x8, m, a);
    x9 = hn::MulAdd(x9, m, a);
  }
  const auto sum = hn::Add(hn::Add(hn::Add(x0, x1), hn::Add(x2, x3)),
                           hn::Add(hn::Add(hn::Add(x4, x5), hn::Add(x6, x7)), hn::Add(x8, x9)));
  float kept = hn::GetLane(hn::SumOfLanes(tag, sum));
  asm volatile("" : "+m"(kept));
  return 2.0 * static_cast<double>(done) * static_cast<double>(hn::Lanes(tag));
}

}  // namespace HWY_NAMESPACE
}  // namespace silt::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace silt::bench {

HWY_EXPORT(CopyPlain);
HWY_EXPORT(CopyNontemporal);
HWY_EXPORT(UpdateInPlace);
HWY_EXPORT(UpdateInPlaceAhead);
HWY_EXPORT(UpdateInPlaceNext);
HWY_EXPORT(ReadOnly);
HWY_EXPORT(MoveToken);
HWY_EXPORT(MultiplyAdd);

void copy_plain(std::byte* target, const std::byte* source, int64_t bytes) {
  HWY_DYNAMIC_DISPATCH(CopyPlain)(target, source, bytes);
}
void copy_nontemporal(std::byte* target, const std::byte* source, int64_t bytes) {
  HWY_DYNAMIC_DISPATCH(CopyNontemporal)(target, source, bytes);
}
void update_in_place(std::byte* data, int64_t bytes) { HWY_DYNAMIC_DISPATCH(UpdateInPlace)(data, bytes); }
void update_in_place_ahead(std::byte* data, int64_t bytes, const std::byte* next) {
  HWY_DYNAMIC_DISPATCH(UpdateInPlaceAhead)(data, bytes, next);
}
void update_in_place_next(std::byte* data, int64_t bytes, const std::byte* next) {
  HWY_DYNAMIC_DISPATCH(UpdateInPlaceNext)(data, bytes, next);
}
uint64_t read_only(const std::byte* source, int64_t bytes) { return HWY_DYNAMIC_DISPATCH(ReadOnly)(source, bytes); }
void move_token(const MovedToken& token, bool ahead) { HWY_DYNAMIC_DISPATCH(MoveToken)(token, ahead); }
double multiply_add(int64_t count) { return HWY_DYNAMIC_DISPATCH(MultiplyAdd)(count); }

}  // namespace silt::bench
#endif
