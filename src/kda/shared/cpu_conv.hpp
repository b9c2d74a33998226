// The inputs of a short convolution on the CPU: kept history, then a run of tokens, and the history they leave behind.
#pragma once

#include <algorithm>

#include "kda/shared/cpu_steps.hpp"

namespace silt::kda::SILT_KDA_CPU {

/// Up to 128 channels of one part of one sequence. The history is copied out first, so that it can be written while
/// the tokens are still read; this object is the one owner of its channels.
template <class Act>
class ConvInputs {
 public:
  /// Token t of the part is at x + t * token_stride. With `known` false the history counts as zero and is not read.
  ConvInputs(const HistoryView<Act>& history, int64_t part, int64_t channels, const Act* x, int64_t token_stride,
             bool known)
      : history_(history), part_(part), channels_(channels), x_(x), token_stride_(token_stride) {
    for (int64_t step = 0; step < kHistory; ++step) {
      if (!known) {
        std::fill_n(before_[step], channels, Act{});
      } else if (history.layout == History::sd) {
        std::copy_n(&history.at(part, step, 0), channels, before_[step]);
      } else {
        for (int64_t c = 0; c < channels; ++c) before_[step][c] = history.at(part, step, c);
      }
    }
  }

  void taps(int64_t token, Taps<Act>& taps) const {
    for (int64_t tap = 0; tap < kTaps; ++tap) taps[tap] = input(token + tap);
  }

  /// Writes the last three inputs after `tokens` tokens.
  void store_history(int64_t tokens) const {
    for (int64_t step = 0; step < kHistory; ++step) {
      const Act* from = input(tokens + step);
      if (history_.layout == History::sd) {
        std::copy_n(from, channels_, &history_.at(part_, step, 0));
      } else {
        for (int64_t c = 0; c < channels_; ++c) history_.at(part_, step, c) = from[c];
      }
    }
  }

 private:
  /// Input i of the sequence, where 0, 1, 2 are the history.
  [[nodiscard]] const Act* input(int64_t i) const {
    return i < kHistory ? before_[i] : x_ + (i - kHistory) * token_stride_;
  }

  HistoryView<Act> history_;
  int64_t part_;
  int64_t channels_;
  const Act* x_;
  int64_t token_stride_;
  Act before_[kHistory][kDim];
};

}  // namespace silt::kda::SILT_KDA_CPU
