// Problem lines and special values from arbitrary bytes: what the fuzzer and `silt check --fuzz` run.
//
// `LineDrawer` is a third visitor of a problem's fields (core/problem_line.hpp). It knows keys, not operators: a key
// means the same in every room. Whatever the bytes are, the line is one that the operator takes, so that none is wasted
// and an error of a call is a finding.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/problem_line.hpp"
#include "proof/record_launch.hpp"

namespace silt {

/// Numbers from bytes; 0 from behind the last one.
class Draws {
 public:
  explicit Draws(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  /// In [0, limit), of one byte; limit at most 256.
  int64_t below(int64_t limit);
  /// True once in `times`.
  bool once_in(int64_t times) { return below(times) == times - 1; }
  template <class T, size_t N>
  T one_of(const T (&values)[N]) {
    return values[below(static_cast<int64_t>(N))];
  }

 private:
  std::span<const uint8_t> bytes_;
};

/// As many bytes as a line and its special values use, from a seed.
std::vector<uint8_t> bytes_of(uint64_t seed);

class LineDrawer {
 public:
  explicit LineDrawer(Draws& draws) : draws_(draws), tidy_(draws.once_in(2)) {}

  void size(std::string_view key, int64_t& value);
  void product(std::string_view key, int64_t& count, int64_t& each);
  void value(std::string_view key, int64_t& value, int64_t standard);
  void real(std::string_view key, float& value, float standard);
  void flag(std::string_view key, bool& value, bool standard);
  template <class E>
  void choice(std::string_view key, E& value, E standard, std::span<const Named<E>> names) {
    value = standard;
    if (fixed_choice(key)) return;
    // An operator with fp32 activations takes no bf16 partials.
    const bool from_wide = key == "partial" && wide_;
    if (!from_wide && !(tidy_ && key == "dtype"))
      value = names[static_cast<size_t>(draws_.below(static_cast<int64_t>(names.size())))].value;
    for (const auto& item : names) {
      if (item.value == value && item.name == "f32") (key == "state" ? wide_state_ : wide_) = true;
    }
  }

 private:
  [[nodiscard]] bool fixed_choice(std::string_view key) const { return key == "lengths" && !offsets_; }
  int64_t stride(std::string_view key, int64_t standard);

  Draws& draws_;
  /// Half of the lines: aligned rows of whole vectors in bf16, as models have them, which the fastest kernels ask for.
  /// Of any sizes at all these take one line in twenty.
  bool tidy_;
  int64_t rows_ = 0;    ///< sequences, tokens or rows: what `padded` counts
  int64_t length_ = 0;  ///< tokens of a sequence
  int64_t memory_ = 0;  ///< rows of memory
  int64_t blocks_ = 0;  ///< valid bank blocks
  int64_t least_blocks_ = 0;
  int64_t slots_ = 0;  ///< of the bank
  int64_t inner_ = 0;  ///< how many inner steps an outer stride must hold
  int64_t spare_ = 0;  ///< elements of the last outer stride that its rows do not need
  bool wide_ = false;  ///< fp32 among the activations
  bool wide_state_ = false;
  bool offsets_ = true;  ///< sequences have offsets
};

template <class Problem>
std::string draw_line(Draws& draws) {
  Problem problem;
  LineDrawer drawer(draws);
  problem.fields(drawer);
  return problem.line();
}

/// Overwrites parts of the inputs: zeros of both signs, denormals, equal rows, gates and beta logits at their extremes.
/// What is poison stays poison.
void plant_specials(const std::vector<NamedTensor>& tensors, Draws& draws);

}  // namespace silt
