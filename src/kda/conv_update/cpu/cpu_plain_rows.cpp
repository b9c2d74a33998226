// What: causal_conv1d_update (contract.md) in portable C++ that compilers vectorise.
//
// When: every checked problem on any CPU.
//
// Plan: tasks are (sequence, part, block of up to 128 channels), in contiguous ranges over the workers. A task copies
// its history out, convolves token after token and leaves the last three inputs behind: one owner per channel.
//
// Data path: the taps of a token point at the history's copy or straight at earlier rows of x.
//
// Bytes: history read and written, x and output once (cost.cpp).
//
// Rounding: fp32 from the bias to the newest tap, one rounding at the output; channels do not mix.
#include "kda/conv_update/cpu/cpu_plain_rows.hpp"

#include "core/workers.hpp"
#include "kda/conv_update/reference.hpp"
#include "kda/shared/cpu_conv.hpp"

namespace silt::causal_conv1d_update_cpu_plain_rows {
namespace {

using kda::kDim;

template <class Act, class Out>
void run_block(const CausalConv1dUpdateProblem& p, const CausalConv1dUpdateArgs& args, int64_t row, int64_t part,
               int64_t first) {
  const int64_t per_part = p.c / kda::kParts;
  const int64_t channels = std::min(kDim, per_part - first);
  const int64_t column = part * per_part + first;
  Out* output = static_cast<Out*>(args.output.data) + row * p.output_stride + column;
  const int64_t slot = causal_conv1d_update_index(args, row);
  if (kda::is_padding(slot, p.null_slot, p.slots)) {
    for (int64_t t = 0; t < p.n; ++t) std::fill_n(output + t * p.output_token_stride, channels, Out{});
    return;
  }
  kda::HistoryView<Act> history = causal_conv1d_update_history<Act>(p, args, slot);
  history.channel = first;
  const Act* x = static_cast<const Act*>(args.x.data) + row * p.x_stride + column;
  const kda::cpu::ConvInputs<Act> inputs(history, part, channels, x, p.x_token_stride, true);
  const float* weight = static_cast<const float*>(args.weight.data) + part * kda::kTaps * per_part + first;
  const float* bias = p.bias ? static_cast<const float*>(args.bias.data) + column : nullptr;
  kda::cpu::Vector z;
  kda::cpu::Taps<Act> taps;
  for (int64_t t = 0; t < p.n; ++t) {
    inputs.taps(t, taps);
    kda::cpu::convolve(weight, per_part, bias, taps, channels, z);
    kda::cpu::narrow(z, channels, output + t * p.output_token_stride);
  }
  inputs.store_history(p.n);
}

template <class Act, class Out>
void run(const CausalConv1dUpdateProblem& p, const CausalConv1dUpdateArgs& args, int threads) {
  const int64_t blocks = (p.c / kda::kParts + kDim - 1) / kDim;
  parallel_ranges(p.b * kda::kParts * blocks, threads, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t row = task / (kda::kParts * blocks);
      const int64_t part = task / blocks % kda::kParts;
      run_block<Act, Out>(p, args, row, part, task % blocks * kDim);
    }
  });
}

}  // namespace

Status launch(const CausalConv1dUpdateProblem& problem, const CausalConv1dUpdateArgs& args, const Launch& launch) {
  const bool halves = problem.output == DType::bf16;
  if (problem.dtype == DType::bf16) {
    (halves ? run<bf16, bf16> : run<bf16, float>)(problem, args, launch.threads);
  } else {
    (halves ? run<float, bf16> : run<float, float>)(problem, args, launch.threads);
  }
  return {};
}

}  // namespace silt::causal_conv1d_update_cpu_plain_rows
