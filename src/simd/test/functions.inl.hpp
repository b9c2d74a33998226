// Fills SimdFunctions for the target that the including file has opened.
#include "simd/math.inl.hpp"
#include "simd/test/functions.hpp"

SILT_SIMD_BEGIN;
namespace silt::SILT_SIMD_NAMESPACE::test {

inline void run_exp(const float* in, float* out) { store(out, exp(load(in))); }
inline void run_sigmoid(const float* in, float* out) { store(out, sigmoid(load(in))); }
inline void run_silu(const float* in, float* out) { store(out, silu(load(in))); }
inline void run_softplus(const float* in, float* out) { store(out, softplus(load(in))); }
inline float run_sum(const float* lanes) { return sum(load(lanes)); }

/// A Pair of bf16 holds even and odd columns: back into the order of the columns.
inline void run_widen(const bf16* in, float* out) {
  float halves[kPairColumns];
  store_packed(halves, load_pair(in));
  for (int i = 0; i < kLanes; ++i) {
    out[2 * i] = halves[i];
    out[2 * i + 1] = halves[kLanes + i];
  }
}
inline Pair pair_of_columns(const float* in) {
  float halves[kPairColumns];
  for (int i = 0; i < kLanes; ++i) {
    halves[i] = in[2 * i];
    halves[kLanes + i] = in[2 * i + 1];
  }
  return load_packed(halves);
}
inline void run_narrow(const float* in, bf16* out) { store_pair(out, pair_of_columns(in)); }
inline void run_stream(const float* in, bf16* out) {
  stream_packed(out, pack<bf16>(pair_of_columns(in)));
  stream_fence();
}
inline void run_copy_f32(const float* in, float* out) { store_pair(out, load_pair(in)); }

template <class Act>
void run_weigh(const Act* in, const bf16* weights, Act* out) {
  const Pair v = load_pair(in);
  const Pair w = load_weights<Act>(weights);
  store_pair(out, Pair{multiply(v.first, w.first), multiply(v.second, w.second)});
}
inline void run_add_squares(const bf16* in, float* sums) { store(sums, add_squares(load_packed(in), load(sums))); }

inline SimdFunctions functions(std::string_view name) {
  return {name,      SILT_SIMD_FEATURE, run_exp,    run_sigmoid,  run_silu,        run_softplus,     run_sum,
          run_widen, run_narrow,        run_stream, run_copy_f32, run_weigh<bf16>, run_weigh<float>, run_add_squares};
}

}  // namespace silt::SILT_SIMD_NAMESPACE::test
SILT_SIMD_END;
