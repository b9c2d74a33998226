// Fills SimdFunctions for the target that the including file has opened.
#include "simd/math.inl.hpp"
#include "simd/test/functions.hpp"

SILT_SIMD_BEGIN;
namespace silt::SILT_SIMD_NAMESPACE::test {

inline void run_exp(const float* in, float* out) { store(out, exp(load(in))); }
inline void run_sigmoid(const float* in, float* out) { store(out, sigmoid(load(in))); }
inline void run_silu(const float* in, float* out) { store(out, silu(load(in))); }
inline void run_softplus(const float* in, float* out) { store(out, softplus(load(in))); }
/// kTogether Lanes at once.
inline void run_several(const float* in, float* out) {
  Several x;
  SILT_EACH_TOGETHER put(x, r, load(in + r * kLanes));
  x = softplus(silu(x));
  SILT_EACH_TOGETHER store(out + r * kLanes, take(x, r));
}
inline void run_silu_softplus(const float* in, float* out) { store(out, softplus(silu(load(in)))); }
inline float run_sum(const float* lanes) { return sum(load(lanes)); }

inline void run_sums(const float* lanes, float* out) {
  sums(load(lanes), load(lanes + kLanes), load(lanes + 2 * kLanes), load(lanes + 3 * kLanes), out);
}

/// A Pair of bf16 holds even and odd columns: back into the order of the columns.
inline void run_widen(const bf16* in, float* out) {
  float halves[kPairColumns];
  store_packed(halves, load_pair(in));
  for (int i = 0; i < kLanes; ++i) {
    out[2 * i] = halves[i];
    out[2 * i + 1] = halves[kLanes + i];
  }
}
/// The same by way of the parts of a Pair and columns_of_pair.
template <class Act>
void run_columns(const Act* in, float* out) {
  Pair pair;
  SILT_EACH_PART {
    const PairPart part = load_pair_part(in, i);
    pair.first.part[i] = part.first;
    pair.second.part[i] = part.second;
  }
  store_packed(out, columns_of_pair<Act>(pair));
}
inline Pair shuffled_pair(const float* in) {
  float halves[kPairColumns];
  for (int i = 0; i < kLanes; ++i) {
    halves[i] = in[2 * i];
    halves[kLanes + i] = in[2 * i + 1];
  }
  return load_packed(halves);
}
inline void run_narrow(const float* in, bf16* out) { store_pair(out, shuffled_pair(in)); }
inline void run_narrow_widened(const float* in, bf16* out) { store_packed(out, pack_widened<bf16>(shuffled_pair(in))); }
inline void run_stream(const float* in, bf16* out) {
  stream_packed(out, pack<bf16>(shuffled_pair(in)));
  stream_fence();
}
inline void run_copy_f32(const float* in, float* out) { store_pair(out, load_pair(in)); }

template <class Act>
void run_weigh(const Act* in, const bf16* weights, Act* out) {
  const Pair v = load_pair(in);
  const Pair w = load_weights<Act>(weights);
  store_pair(out, Pair{multiply(v.first, w.first), multiply(v.second, w.second)});
}
template <class Act>
void run_pair(const float* in, Act* out) {
  store_pair(out, pair_of_columns<Act>(load(in), load(in + kLanes)));
}
inline void run_add_squares(const bf16* in, float* sums) { store(sums, add_squares(load_packed(in), load(sums))); }

}  // namespace silt::SILT_SIMD_NAMESPACE::test
SILT_SIMD_END;

namespace silt::SILT_SIMD_NAMESPACE::test {

/// Not for the target itself: it runs on every CPU, and the compiler may fill a structure with vectors.
inline SimdFunctions functions(std::string_view name) {
  SimdFunctions f{};
  f.name = name;
  f.feature = SILT_SIMD_FEATURE;
  f.exp = run_exp;
  f.sigmoid = run_sigmoid;
  f.silu = run_silu;
  f.softplus = run_softplus;
  f.together = kTogether;
  f.several = run_several;
  f.silu_softplus = run_silu_softplus;
  f.sum = run_sum;
  f.sums = run_sums;
  f.widen = run_widen;
  f.columns_bf16 = run_columns<bf16>;
  f.columns_f32 = run_columns<float>;
  f.narrow = run_narrow;
  f.narrow_widened = run_narrow_widened;
  f.stream = run_stream;
  f.copy_f32 = run_copy_f32;
  f.weigh_bf16 = run_weigh<bf16>;
  f.weigh_f32 = run_weigh<float>;
  f.pair_bf16 = run_pair<bf16>;
  f.pair_f32 = run_pair<float>;
  f.add_squares = run_add_squares;
  return f;
}

}  // namespace silt::SILT_SIMD_NAMESPACE::test
