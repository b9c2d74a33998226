#include "proof/draw.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "proof/random.hpp"

namespace silt {

int64_t Draws::below(int64_t limit) {
  if (bytes_.empty()) return 0;
  const uint8_t byte = bytes_.front();
  bytes_ = bytes_.subspan(1);
  return byte % limit;
}

std::vector<uint8_t> bytes_of(uint64_t seed) {
  constexpr size_t kBytes = 96;
  Random random(seed);
  std::vector<uint8_t> bytes(kBytes);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.bits() >> 32);
  return bytes;
}

void LineDrawer::size(std::string_view key, int64_t& value) {
  // Hidden sizes: around vector widths, multiples of a tile, anything.
  static constexpr int64_t kWidths[] = {1, 7, 8, 31, 32, 33, 64, 256, 257, 512, 1024, 1031, 1536, 2304};
  static constexpr int64_t kTidyWidths[] = {256, 512, 768, 1024, 1536, 2048, 2304, 4096, 7168, 8192, 264, 1032};
  value = 1;
  if (key == "b" || key == "t") {
    value = draws_.once_in(16) ? 10 + draws_.below(60) : draws_.below(9);
    rows_ = memory_ = value;
  } else if (key == "h") {
    value = 1 + draws_.below(draws_.once_in(8) ? 12 : 4);
  } else if (key == "n") {
    value = least_blocks_ + draws_.below(draws_.once_in(8) ? 12 : 9);
    blocks_ = value;
  } else if (key == "q") {
    value = 1 + draws_.below(5);
    least_blocks_ = 1;  // a sweep for later queries has blocks
  } else if (key == "d") {
    if (tidy_) {
      value = draws_.one_of(kTidyWidths);
    } else {
      value = draws_.once_in(4) ? 1 + draws_.below(256) : draws_.one_of(kWidths);
    }
  } else if (key == "c") {
    value = 3 * (draws_.once_in(4) ? 1 + draws_.below(200) : 128 * (1 + draws_.below(4)));
  }
}

void LineDrawer::product(std::string_view, int64_t& count, int64_t& each) {
  count = draws_.below(5);
  each = draws_.once_in(4) ? 1 : draws_.below(draws_.once_in(8) ? 150 : 40);
  if (count == 0) each = 0;
  rows_ = count;
  length_ = each;
  memory_ = count * each;
}

int64_t LineDrawer::stride(std::string_view key, int64_t standard) {
  static constexpr int64_t kGaps[] = {1, 2, 3, 4, 8, 16, 24, 61, 128};
  static constexpr int64_t kTidyGaps[] = {8, 16, 24, 128};
  if (standard == 0) return 0;
  const bool outer = key == "bank_token_stride" || key.ends_with("_query_stride");
  if (key == "bank_slot_stride" || (key.ends_with("_token_stride") && inner_ > 0)) {
    const int64_t most = std::min<int64_t>(inner_ > 0 ? spare_ / inner_ : 0, 255);
    inner_ = 0;
    const int64_t gap = draws_.below(most + 1);
    return standard + (tidy_ ? gap / 8 * 8 : gap);
  }
  int64_t gap = 0;
  if (draws_.once_in(2)) gap = tidy_ ? draws_.one_of(kTidyGaps) : draws_.one_of(kGaps);
  if (!outer) return standard + gap;
  inner_ = std::max<int64_t>(key == "bank_token_stride" ? slots_ : memory_, 1);
  spare_ = gap * (draws_.once_in(2) ? inner_ : 1);
  return standard + spare_;
}

void LineDrawer::value(std::string_view key, int64_t& value, int64_t standard) {
  value = standard;
  if (key.ends_with("stride")) {
    value = stride(key, standard);
  } else if (key == "n") {
    value = draws_.below(5);
  } else if (key == "null") {
    value = -draws_.below(2);
  } else if (key == "slots") {
    value = standard + draws_.below(5);
  } else if (key == "r") {
    value = standard + draws_.below(4);
    slots_ = value;
  } else if (key == "padded") {
    value = draws_.once_in(2) ? draws_.below(rows_ + 1) : 0;
  } else if (key == "t") {
    value = rows_ == 0 ? standard : standard + draws_.below(rows_);
    memory_ = value;
  } else if (key == "write") {
    value = draws_.once_in(2) ? blocks_ + draws_.below(3) : -1;
  } else if (key == "stable") {
    value = draws_.below(blocks_ + 2) - 1;
  } else if (key == "columns") {
    value = draws_.once_in(3) ? 1 + draws_.below(4) : 0;
  } else if (key == "align" || key == "state_align") {
    static constexpr int64_t kAligns[] = {16, 16, 8, 4, 2};
    if (tidy_) {
      value = 16;
      return;
    }
    value = std::max<int64_t>(draws_.one_of(kAligns), wide_ || (key == "state_align" && wide_state_) ? 4 : 2);
  }
}

void LineDrawer::real(std::string_view, float& value, float standard) {
  static constexpr float kBounds[] = {-5.0F, -0.5F, -1.0F};
  value = standard == 0 ? standard : draws_.one_of(kBounds);
}

void LineDrawer::flag(std::string_view key, bool& value, bool standard) {
  value = draws_.once_in(3) ? !standard : standard;
  if (key != "offsets") return;
  value = value || length_ != 1 || memory_ != rows_;
  offsets_ = value;
}

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// A value that the contract of every operator with an argument of this name speaks of.
float special_value(std::string_view name, Draws& draws) {
  static constexpr float kGates[] = {30, -30, kInfinity, -kInfinity, 19, 25, 0};
  static constexpr float kLogits[] = {40, -40, 88, -100, 0};
  static constexpr float kDecays[] = {6, -3, 0};
  static constexpr float kPlain[] = {0, -0.0F, 1, -1, 1e-40F, -3e-39F, 1e-20F};
  if (name == "raw_gate") return draws.one_of(kGates);
  if (name == "raw_beta") return draws.one_of(kLogits);
  if (name == "A_log") return draws.one_of(kDecays);
  return draws.one_of(kPlain);
}

}  // namespace

void plant_specials(const std::vector<NamedTensor>& tensors, Draws& draws) {
  const int64_t plants = 1 + draws.below(6);
  for (int64_t i = 0; i < plants; ++i) {
    const NamedTensor& named = tensors[static_cast<size_t>(draws.below(static_cast<int64_t>(tensors.size())))];
    CaseTensor& tensor = *named.tensor;
    // What the call writes only is poisoned before it, whatever stands there. Integers are indices, which are the
    // line's. Statistics are results of another operator: a denominator is never 0.
    if (!tensor.present() || tensor.elements() == 0 || tensor.dtype() == DType::i32) continue;
    if (std::string_view(named.name) == "statistics") continue;
    static constexpr int64_t kLengths[] = {1, 128, 128, 1 << 20};
    const int64_t length = std::min(draws.one_of(kLengths), tensor.elements());
    const int64_t begin = draws.below(256) * (tensor.elements() - length) / 255 / length * length;
    const float value = special_value(named.name, draws);
    for (int64_t at = begin; at < begin + length; ++at) {
      if (!std::isnan(tensor.get(at))) tensor.set(at, value);
    }
  }
}

}  // namespace silt
