// attn_res_partials and attn_res_merge as silt-bench measures them. What the two-phase form takes for a call of
// attn_res is the time of a sweep over its queries, and a merge.
#pragma once

#include <algorithm>
#include <vector>

#include "bench/subject.hpp"
#include "proof/random.hpp"

namespace silt::bench {

Room attn_res_partials_room();
Room attn_res_merge_room();

/// The tokens that the oracle looks at: all of a few; else both ends, where grids and thread ranges are cut, and random
/// ones between.
inline std::vector<int64_t> two_phase_tokens(int64_t t, int64_t most) {
  std::vector<int64_t> tokens;
  if (t <= most) {
    for (int64_t i = 0; i < t; ++i) tokens.push_back(i);
    return tokens;
  }
  Random random(8);
  for (int64_t i = 0; i < most / 4; ++i) tokens.insert(tokens.end(), {i, t - 1 - i});
  while (static_cast<int64_t>(tokens.size()) < most) {
    const int64_t token = random.below(t);
    if (std::find(tokens.begin(), tokens.end(), token) == tokens.end()) tokens.push_back(token);
  }
  return tokens;
}

}  // namespace silt::bench
