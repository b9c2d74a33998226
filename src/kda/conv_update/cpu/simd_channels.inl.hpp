// What: causal_conv1d_update (contract.md) on one SIMD target.
//
// When: every checked problem; any strides, alignment to the element, SD and DS histories, any number of channels.
//
// Plan: tasks are (sequence, part, block of up to 128 channels), in contiguous ranges over the workers. A task copies
// its history out, convolves token after token and leaves the last three inputs behind: one owner per channel.
//
// Data path: the taps of a token point at the history's copy or straight at earlier rows of x. Channels that fill no
// Pair go through one that is padded with zeros.
//
// Bytes: history read and written, x and output once (cost.cpp).
//
// Rounding: fp32 from the bias to the newest tap, one rounding at the output; channels do not mix.
#pragma once

#include "core/workers.hpp"
#include "kda/conv_update/reference.hpp"
#include "kda/shared/cpu_conv.hpp"
#include "kda/shared/simd_steps.inl.hpp"

SILT_SIMD_BEGIN;
namespace silt::SILT_SIMD_NAMESPACE::conv_update_channels {

using kda_steps::kDim;

/// Below this many blocks of 128 channels and tokens (about 15 us) the caller works alone.
constexpr int64_t kBlocksAlone = 64;

/// The convolution of one block of channels: the same for every token.
struct Weights {
  const float* weight;  ///< tap 0; a tap is tap_stride further
  int64_t tap_stride;
  const float* bias;  ///< or null
};

template <class Act, class Out>
SILT_INLINE void convolve_pair(const Weights& w, const Act* const* taps, int64_t c, Out* to) {
  const Lanes low = silu(kda_steps::weigh_taps(w.weight, w.tap_stride, w.bias, taps, c));
  const Lanes high = silu(kda_steps::weigh_taps(w.weight, w.tap_stride, w.bias, taps, c + kLanes));
  store_pair(to, pair_of_columns<Out>(low, high));
}

/// The last channels of a block, fewer than a Pair, from channel c on.
template <class Act, class Out>
void convolve_rest(const Weights& w, const Act* const* taps, int64_t c, int64_t channels, Out* to) {
  const auto count = static_cast<size_t>(channels - c);
  float weight[kda::kTaps * kPairColumns] = {};
  float bias[kPairColumns] = {};
  Act inputs[kda::kTaps][kPairColumns] = {};
  Out outputs[kPairColumns];
  for (int64_t tap = 0; tap < kda::kTaps; ++tap) {
    __builtin_memcpy(weight + tap * kPairColumns, w.weight + tap * w.tap_stride + c, count * sizeof(float));
    __builtin_memcpy(inputs[tap], taps[tap] + c, count * sizeof(Act));
  }
  if (w.bias != nullptr) __builtin_memcpy(bias, w.bias + c, count * sizeof(float));
  const Act* padded[] = {inputs[0], inputs[1], inputs[2], inputs[3]};
  convolve_pair(Weights{weight, kPairColumns, bias}, padded, 0, outputs);
  __builtin_memcpy(to + c, outputs, count * sizeof(Out));
}

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
  const Weights weights{static_cast<const float*>(args.weight.data) + part * kda::kTaps * per_part + first, per_part,
                        p.bias ? static_cast<const float*>(args.bias.data) + column : nullptr};
  for (int64_t t = 0; t < p.n; ++t) {
    const Act* taps[kda::kTaps];
    inputs.taps(t, taps);
    Out* to = output + t * p.output_token_stride;
    int64_t c = 0;
    for (; c + kPairColumns <= channels; c += kPairColumns) convolve_pair(weights, taps, c, to + c);
    if (c < channels) convolve_rest(weights, taps, c, channels, to);
  }
  inputs.store_history(p.n);
}

template <class Act, class Out>
void run(const CausalConv1dUpdateProblem& p, const CausalConv1dUpdateArgs& args, int threads) {
  const int64_t blocks = (p.c / kda::kParts + kDim - 1) / kDim;
  const int64_t tasks = p.b * kda::kParts * blocks;
  if (tasks * p.n < kBlocksAlone) threads = 1;
  parallel_ranges(tasks, threads, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t row = task / (kda::kParts * blocks);
      const int64_t part = task / blocks % kda::kParts;
      run_block<Act, Out>(p, args, row, part, task % blocks * kDim);
    }
  });
}

inline Status launch(const CausalConv1dUpdateProblem& problem, const CausalConv1dUpdateArgs& args,
                     const Launch& launch) {
  const bool halves = problem.output == DType::bf16;
  if (problem.dtype == DType::bf16) {
    (halves ? run<bf16, bf16> : run<bf16, float>)(problem, args, launch.threads);
  } else {
    (halves ? run<float, bf16> : run<float, float>)(problem, args, launch.threads);
  }
  return {};
}

}  // namespace silt::SILT_SIMD_NAMESPACE::conv_update_channels
SILT_SIMD_END;
