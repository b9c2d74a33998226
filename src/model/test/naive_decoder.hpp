// The architecture once more, in double precision and plain loops, sharing no code with the decoder: the oracle of the
// synthetic variants. Whole sequences only; nothing is cached, nothing is rounded.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/test/checkpoint_writer.hpp"

namespace silt {

/// Logits, [tokens, vocab] in one row after the other. With `noise` every result of a product or norm is moved by a
/// random share of at most that much: what roundings of this size do to this model.
std::vector<double> naive_logits(const SyntheticModel& model, std::span<const int32_t> tokens, double noise = 0,
                                 uint64_t seed = 0);

}  // namespace silt
