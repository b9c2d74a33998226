// What: attn_res (contract.md) in portable C++ that compilers vectorise.
//
// When: every checked problem on any CPU.
//
// Plan: tokens in contiguous ranges over the workers. A token is two passes over its sources: statistics (dot with the
// weights and sum of squares), then the mixture, which finds the rows in L2 again. An online softmax would rescale an
// accumulator of D floats once per source, which costs more than reading the rows twice (docs/cpu.md).
//
// Data path: prefix and delta once, p to the prefix row (and its slot) at once; bank rows twice; the output row is kept
// in fp32 in a worker's scratch between the mixture and the norm.
//
// Bytes: 2*D*(nb + 1 + 2*delta + write + 1) per token at bf16 (cost.cpp).
//
// Rounding: fp32 throughout, one rounding at p and one at the output. Sums are kept in kLanes partial sums, added by a
// fixed tree: a row's bits depend on nothing but the row.
#include "attn_res/cpu/cpu_plain_rows.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "attn_res/rows.hpp"
#include "core/workers.hpp"

namespace silt::attn_res_cpu_plain_rows {
namespace {

using Lanes = std::array<float, kLanes>;

float tree_sum(Lanes lanes) {
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

float inverse_rms(float sum, int64_t d, float eps) { return 1.0F / std::sqrt(sum / static_cast<float>(d) + eps); }

template <class Act>
Act rounded(float value) {
  if constexpr (std::is_same_v<Act, bf16>) {
    return to_bf16(value);
  } else {
    return value;
  }
}

struct Statistics {
  float dot = 0;
  float squares = 0;
};

template <class Act>
Statistics statistics(const Act* row, const float* weight, int64_t d) {
  Lanes dot{};
  Lanes squares{};
  int64_t c = 0;
  for (; c + kLanes <= d; c += kLanes) {
    for (int i = 0; i < kLanes; ++i) {
      const float v = to_float(row[c + i]);
      dot[static_cast<size_t>(i)] += v * weight[c + i];
      squares[static_cast<size_t>(i)] += v * v;
    }
  }
  for (int i = 0; c + i < d; ++i) {
    const float v = to_float(row[c + i]);
    dot[static_cast<size_t>(i)] += v * weight[c + i];
    squares[static_cast<size_t>(i)] += v * v;
  }
  return {tree_sum(dot), tree_sum(squares)};
}

float sum_of_squares(const float* row, int64_t d) {
  Lanes squares{};
  for (int64_t c = 0; c < d; ++c) squares[static_cast<size_t>(c % kLanes)] += row[c] * row[c];
  return tree_sum(squares);
}

/// logit -> weight, in place; the row turns NaN where a logit is NaN.
void softmax(std::vector<float>& logits) {
  float largest = logits[0];
  for (const float logit : logits) largest = std::max(largest, logit);
  float sum = 0;
  for (float& logit : logits) {
    logit = std::exp(logit - largest);
    sum += logit;
  }
  for (float& logit : logits) logit /= sum;
}

/// What a thread keeps between calls, so that a call allocates only when it is larger than all before it.
struct Scratch {
  std::vector<float> weight;   ///< norm_weight * qk_weight
  std::vector<float> mix;      ///< a row between mixture and output
  std::vector<float> softmax;  ///< logits, then weights of the sources
};

Scratch& scratch() {
  thread_local Scratch instance;
  return instance;
}

template <class Act>
class Rows {
 public:
  Rows(const AttnResProblem& problem, const AttnResArgs& args, const float* weight, Scratch& scratch)
      : p_(problem), args_(args), weight_(weight), mix_(scratch.mix), weights_(scratch.softmax) {
    mix_.resize(static_cast<size_t>(problem.d));
  }

  void run(int64_t t) {
    Act* prefix = static_cast<Act*>(args_.prefix.data) + t * p_.prefix_stride;
    update_prefix(t, prefix);
    mix(t, prefix);
    finish(static_cast<Act*>(args_.output.data) + t * p_.output_stride);
  }

 private:
  void update_prefix(int64_t t, Act* prefix) const {
    if (p_.delta) {
      const Act* delta = static_cast<const Act*>(args_.delta.data) + t * p_.delta_stride;
      for (int64_t c = 0; c < p_.d; ++c) prefix[c] = rounded<Act>(to_float(prefix[c]) + to_float(delta[c]));
    }
    if (p_.write >= 0) std::copy_n(prefix, p_.d, attn_res_slot<Act>(p_, args_, t, p_.write));
  }

  void mix(int64_t t, const Act* prefix) {
    if (p_.n == 0) {
      for (int64_t c = 0; c < p_.d; ++c) mix_[static_cast<size_t>(c)] = to_float(prefix[c]);
      return;
    }
    weights_.clear();
    for (int64_t i = 0; i <= p_.n; ++i) {
      const Statistics s = statistics(source(t, i, prefix), weight_, p_.d);
      weights_.push_back(s.dot * inverse_rms(s.squares, p_.d, args_.eps));
    }
    softmax(weights_);
    std::fill(mix_.begin(), mix_.end(), 0.0F);
    for (int64_t i = 0; i <= p_.n; ++i) {
      const Act* row = source(t, i, prefix);
      const float w = weights_[static_cast<size_t>(i)];
      for (int64_t c = 0; c < p_.d; ++c) mix_[static_cast<size_t>(c)] += w * to_float(row[c]);
    }
  }

  void finish(Act* output) const {
    const bf16* g = static_cast<const bf16*>(args_.output_norm_weight.data);
    if (!p_.norm) {
      for (int64_t c = 0; c < p_.d; ++c) output[c] = rounded<Act>(mix_[static_cast<size_t>(c)]);
      return;
    }
    const float scale = inverse_rms(sum_of_squares(mix_.data(), p_.d), p_.d, args_.output_norm_eps);
    for (int64_t c = 0; c < p_.d; ++c) {
      output[c] = rounded<Act>(mix_[static_cast<size_t>(c)] * scale * to_float(g[c]));
    }
  }

  const Act* source(int64_t t, int64_t i, const Act* prefix) const {
    return i == p_.n ? prefix : attn_res_slot<Act>(p_, args_, t, i);
  }

  const AttnResProblem& p_;
  const AttnResArgs& args_;
  const float* weight_;
  std::vector<float>& mix_;
  std::vector<float>& weights_;
};

template <class Act>
void run(const AttnResProblem& problem, const AttnResArgs& args, int threads) {
  std::vector<float>& weight = scratch().weight;
  weight.clear();
  if (problem.n > 0) {
    const bf16* norm = static_cast<const bf16*>(args.norm_weight.data);
    const bf16* qk = static_cast<const bf16*>(args.qk_weight.data);
    for (int64_t c = 0; c < problem.d; ++c) weight.push_back(to_float(norm[c]) * to_float(qk[c]));
  }
  parallel_ranges(problem.t, threads, [&](int64_t begin, int64_t end) {
    Rows<Act> rows(problem, args, weight.data(), scratch());
    for (int64_t t = begin; t < end; ++t) rows.run(t);
  });
}

}  // namespace

Status launch(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch) {
  if (problem.dtype == DType::bf16) {
    run<bf16>(problem, args, launch.threads);
  } else {
    run<float>(problem, args, launch.threads);
  }
  return {};
}

}  // namespace silt::attn_res_cpu_plain_rows
