// When two phases pay: the bytes of both forms at the rate that their kernels reach, and what a sweep takes before its
// first row.
#include "attn_res/two_phase/cuda/cuda_sm90_direct.hpp"
#include "attn_res/two_phase/cuda/cuda_sm90_tensor.hpp"

namespace silt {
namespace {

// Times over those of the same bytes at the rate of a call. On H200 (T 4096, eight blocks, eight queries) a call moves
// 704.6 MB in 161.9 us, 4.35 TB/s; a merge 293.6 MB in 72.8 us, the bytes of 1.08 times as many at that rate; a sweep
// 939.8 MB in 259.7 us, of which it spends 5 us before its first row: 1.18.
constexpr double kSweepSlower = 1.18;
constexpr double kMergeSlower = 1.08;
/// What could be moved while a sweep makes its weights and asks for its first rows: 5 us at 4.2 TB/s.
constexpr double kSweepStartBytes = 21e6;

AttnResPartialsProblem sweep_of(int64_t t, int64_t d, int64_t n, int64_t queries, DType partial) {
  AttnResPartialsProblem problem;
  problem.t = t;
  problem.d = d;
  problem.n = problem.slots = n;
  problem.q = queries;
  problem.partial = partial;
  return problem;
}

AttnResMergeProblem merge_of(int64_t t, int64_t d, DType partial) {
  AttnResMergeProblem problem;
  problem.t = t;
  problem.d = d;
  problem.partial = partial;
  return problem;
}

}  // namespace

bool attn_res_two_phase_pays(int64_t t, int64_t d, int64_t num_blocks, int64_t queries, DType partial,
                             const DeviceFacts& facts) {
  if (t < 1 || d < 1 || num_blocks < 1 || queries < 1 || queries > kAttnResMostQueries) return false;
  const AttnResPartialsProblem sweep = sweep_of(t, d, num_blocks, queries, partial);
  const AttnResMergeProblem merge = merge_of(t, d, partial);
  if (facts.kind != DeviceKind::cuda || !attn_res_partials_cuda_sm90_tensor::accepts(sweep, facts).accepted() ||
      !attn_res_merge_cuda_sm90_direct::accepts(merge, facts).accepted()) {
    return false;
  }
  // A call with delta: nb blocks, prefix, delta, prefix written, output.
  const double call = static_cast<double>(t) * 2 * static_cast<double>(d) * static_cast<double>(num_blocks + 4);
  const double two_phases = kSweepStartBytes + kSweepSlower * static_cast<double>(bytes(sweep)) +
                            kMergeSlower * static_cast<double>(queries) * static_cast<double>(bytes(merge));
  return two_phases < static_cast<double>(queries) * call;
}

}  // namespace silt
