// One token from one row of logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "silt/model.hpp"

namespace silt {

Status check_sampling(const Sampling& sampling);

/// Draws from temperature, then the top_k best, then the smallest set of the best whose probability reaches top_p.
/// Greedy at temperature 0; the lower id wins a tie.
class Sampler {
 public:
  /// `stream` tells the prompts of one call apart.
  Sampler(const Sampling& sampling, uint64_t stream);
  /// An error where a logit is NaN: the model's numbers are broken.
  Status take(std::span<const float> logits, int32_t* token);

 private:
  double uniform();

  Sampling sampling_;
  uint64_t state_;
  std::vector<int32_t> order_;
  std::vector<double> weights_;
};

}  // namespace silt
