// The promise of cuda_sm90_direct of attn_res_merge: the partial takes the place of the bank in two of the forms of
// attn_res's kernel of that name (../../cuda/cuda_sm90_direct.hpp). Plain C++.
#pragma once

#include "attn_res/cuda/cuda_sm90_direct.hpp"
#include "attn_res/two_phase/list.hpp"

namespace silt::attn_res_merge_cuda_sm90_direct {

using attn_res_cuda_sm90_direct::Begin;
using attn_res_cuda_sm90_direct::Form;
using attn_res_cuda_sm90_direct::Plan;

/// Narrow with both load hints, one with plain loads.
constexpr bool fits(const Plan& plan, int64_t d) {
  using namespace attn_res_cuda_sm90_direct;  // NOLINT(google-build-using-namespace)
  if (plan.form == Form::one) return !plan.stream && d <= 14 * kPairColumns;
  return plan.form == Form::narrow && d > kBlockColumns;
}

/// As attn_res with one block (a merge moves the bytes of such a call): narrow where latency counts, one block a token
/// where memory does.
constexpr Plan choose_plan(const AttnResMergeProblem& problem, Pdl pdl) {
  const int64_t t = problem.t * problem.d / 7168;
  const bool late = pdl == Pdl::late;
  Plan plan;
  plan.form = t > 160 ? Form::one : Form::narrow;
  if (!fits(plan, problem.d)) plan.form = plan.form == Form::one ? Form::narrow : Form::one;
  plan.stream = plan.form == Form::narrow && t <= 512;
  if (pdl != Pdl::off && t <= (late ? 32 : 160)) plan.begin = Begin::prefetch;
  // Many tokens in late order: every early reader takes the place of a block that has all it needs.
  if (t > (late ? 768 : 1536)) plan.begin = Begin::in_turn;
  return plan;
}

constexpr Reason accepts(const AttnResMergeProblem& problem, const DeviceFacts& facts) {
  using namespace attn_res_cuda_sm90_direct;  // NOLINT(google-build-using-namespace)
  if (!has_code_for(facts.arch_number)) return refuse("arch", facts.arch, "sm_90, sm_100 or sm_103");
  if (problem.dtype != DType::bf16) return refuse("dtype", to_string(problem.dtype), "bf16");
  if (problem.d % kLeafColumns != 0) return refuse("hidden size", problem.d, "a multiple of 256");
  if (problem.d > kMostColumns) return refuse("hidden size", problem.d, "at most 8192");
  if (problem.align < 16) return refuse("alignment", problem.align, "16 bytes of every row and weight");
  if (problem.t > INT32_MAX) return refuse("tokens", problem.t, "at most 2147483647");
  return accept();
}

/// "7 x 128 threads a token, streaming loads after a prefetch; late: ..."
std::string describe(const AttnResMergeProblem& problem, const DeviceFacts& facts);

Status launch(const AttnResMergeProblem& problem, const AttnResMergeArgs& args, const Launch& launch);
/// The same with a plan of the caller's choice (one that fits); tests compare them.
Status launch_plan(const AttnResMergeProblem& problem, const AttnResMergeArgs& args, const Launch& launch,
                   const Plan& plan);

}  // namespace silt::attn_res_merge_cuda_sm90_direct
