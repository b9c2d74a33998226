#include "kda/shared/case_pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace silt::kda {

std::vector<int32_t> case_indices(Random& random, int64_t rows, int64_t padded, int64_t null_slot, int64_t slots) {
  std::vector<int32_t> free;
  for (int64_t slot = null_slot + 1; slot < slots; ++slot) free.push_back(static_cast<int32_t>(slot));
  for (size_t i = free.size(); i > 1; --i) {
    std::swap(free[i - 1], free[static_cast<size_t>(random.below(static_cast<int64_t>(i)))]);
  }
  const int32_t padding[] = {static_cast<int32_t>(null_slot),     static_cast<int32_t>(slots),        -1, -7,
                             std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min()};
  std::vector<int32_t> indices;
  size_t live = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t before = row * padded / rows;
    if ((row + 1) * padded / rows > before) {
      indices.push_back(padding[static_cast<size_t>(before) % std::size(padding)]);
    } else {
      indices.push_back(free[live++]);
    }
  }
  return indices;
}

std::vector<int32_t> case_offsets(Random& random, int64_t n, int64_t rows, Lengths lengths) {
  std::vector<int32_t> offsets;
  for (int64_t i = 0; i <= n; ++i) {
    const int64_t gap = std::min<int64_t>(2, rows / 4);
    const int64_t even = n == 0 ? 0 : i * (rows / n);
    offsets.push_back(static_cast<int32_t>(lengths == Lengths::even ? even : gap + random.below(rows - 2 * gap + 1)));
  }
  std::sort(offsets.begin(), offsets.end());
  // A sequence without tokens between others.
  if (lengths == Lengths::ragged && n > 2) offsets[2] = offsets[1];
  return offsets;
}

std::vector<bool> live_rows(const std::vector<int32_t>& offsets, const std::vector<int32_t>& indices, int64_t rows,
                            int64_t null_slot, int64_t slots) {
  std::vector<bool> live(static_cast<size_t>(rows), false);
  for (size_t sequence = 0; sequence < indices.size(); ++sequence) {
    for (int32_t row = offsets[sequence]; row < offsets[sequence + 1]; ++row) {
      live[static_cast<size_t>(row)] = !is_padding(indices[sequence], null_slot, slots);
    }
  }
  return live;
}

int64_t case_shift(DType dtype, int64_t align) {
  const auto element = static_cast<int64_t>(size_of(dtype));
  return align >= 16 ? 0 : std::max(align, element) / element;
}

void fill_uniform(CaseTensor& tensor, Random& random, float low, float high) {
  if (tensor.present()) tensor.fill([&](int64_t) { return random.uniform(low, high); });
}

void fill_rows(CaseTensor& tensor, Random& random, float low, float high, int64_t length,
               FunctionRef<bool(int64_t)> live) {
  if (!tensor.present()) return;
  for (int64_t row = 0; row < tensor.elements() / length; ++row) {
    if (!live(row)) continue;
    for (int64_t i = 0; i < length; ++i) tensor.set(row * length + i, random.uniform(low, high));
  }
}

void fill_pool(CaseTensor& pool, Random& random, float low, float high, int64_t slot_stride, int64_t elements,
               const std::vector<int32_t>& indices) {
  for (int64_t slot = 0; slot < pool.shape()[0]; ++slot) {
    const bool live = std::find(indices.begin(), indices.end(), slot) != indices.end();
    if (!live && slot % 2 == 1) continue;
    for (int64_t i = slot * slot_stride; i < slot * slot_stride + elements; ++i) {
      const float value = random.uniform(low, high);
      if (pool.dtype() == DType::bf16) {
        pool.host<bf16>()[i] = to_bf16(value);
      } else {
        pool.host<float>()[i] = value;
      }
    }
  }
}

void poison_slot(CaseTensor& pool, int64_t slot, int64_t slot_stride, int64_t elements) {
  const size_t element = size_of(pool.dtype());
  std::memset(pool.host<std::byte>() + static_cast<size_t>(slot * slot_stride) * element, 0xff,
              static_cast<size_t>(elements) * element);
}

Verdict expect_untouched(std::string_view name, const std::vector<std::byte>& got, const std::vector<std::byte>& before,
                         Ranges written) {
  std::sort(written.begin(), written.end());
  written.emplace_back(got.size(), 0);
  Verdict verdict;
  size_t at = 0;
  for (const auto& [begin, length] : written) {
    const size_t count = begin - std::min(at, begin);
    verdict.merge(expect_bitwise(fmt::format("{} from byte {}, not to be written", name, at),
                                 std::span(got).subspan(at, count), std::span(before).subspan(at, count)));
    at = std::max(at, begin + length);
  }
  return verdict;
}

Verdict expect_only_rows(std::string_view name, CaseTensor& tensor, const std::vector<std::byte>& before,
                         const std::vector<int64_t>& rows, int64_t row_stride, int64_t elements) {
  const auto origin = static_cast<size_t>(tensor.host<std::byte>() - tensor.bytes().data());
  const size_t element = size_of(tensor.dtype());
  Ranges written;
  for (const int64_t row : rows) {
    written.emplace_back(origin + static_cast<size_t>(row * row_stride) * element,
                         static_cast<size_t>(elements) * element);
  }
  return expect_untouched(name, tensor.bytes(), before, std::move(written));
}

Verdict expect_only_rows(std::string_view name, CaseTensor& tensor, const std::vector<std::byte>& before, int64_t rows,
                         int64_t row_stride, int64_t elements) {
  std::vector<int64_t> all(static_cast<size_t>(rows));
  std::iota(all.begin(), all.end(), 0);
  return expect_only_rows(name, tensor, before, all, row_stride, elements);
}

Verdict expect_only_live_slots(std::string_view name, CaseTensor& pool, const std::vector<std::byte>& before,
                               const std::vector<int32_t>& indices, int64_t null_slot, int64_t slot_stride,
                               int64_t elements) {
  const auto origin = static_cast<size_t>(pool.host<std::byte>() - pool.bytes().data());
  const size_t element = size_of(pool.dtype());
  Ranges written;
  for (const int64_t slot : indices) {
    if (is_padding(slot, null_slot, pool.shape()[0])) continue;
    written.emplace_back(origin + static_cast<size_t>(slot * slot_stride) * element,
                         static_cast<size_t>(elements) * element);
  }
  return expect_untouched(name, pool.bytes(), before, std::move(written));
}

Verdict expect_zero_head(std::string_view name, DType dtype, const void* data, int64_t offset) {
  Verdict verdict;
  for (const float value : load_head<float>(data, dtype, offset)) {
    if (!(value == 0)) verdict.fail(fmt::format("{}: has {}, needs 0: padding", name, value));
  }
  return verdict;
}

Verdict expect_state(std::string_view name, DType dtype, const void* got, const std::vector<double>& want,
                     const HeadBound& bound) {
  const auto value = [&](int64_t i) {
    return static_cast<double>(dtype == DType::bf16 ? to_float(static_cast<const bf16*>(got)[i])
                                                    : static_cast<const float*>(got)[i]);
  };
  const auto exact = [&](int64_t i) { return want[static_cast<size_t>(i)]; };
  if (dtype == DType::bf16) {
    return expect_within(
        name, kDim * kDim, value, [&](int64_t i) { return round_to_bf16(exact(i)); },
        [&](int64_t i) { return bf16_ulp(exact(i)) + bound.row(i / kDim); });
  }
  Verdict verdict;
  for (int64_t v = 0; v < kDim; ++v) {
    double squares = 0;
    for (int64_t k = 0; k < kDim; ++k) squares += exact(v * kDim + k) * exact(v * kDim + k);
    // Non-finite rows are compared element by element; the limit does not matter to them.
    const double limit = std::isfinite(squares) ? std::max(1e-5 * std::sqrt(squares), bound.row(v)) : 1;
    double error = 0;
    bool special_differs = false;
    for (int64_t k = 0; k < kDim; ++k) {
      const double g = value(v * kDim + k);
      const double w = exact(v * kDim + k);
      if (std::isfinite(w) && std::isfinite(g)) {
        error += (g - w) * (g - w);
      } else {
        special_differs |= std::isnan(w) ? !std::isnan(g) : g != w;
      }
    }
    const double share = special_differs ? std::numeric_limits<double>::quiet_NaN() : std::sqrt(error) / limit;
    verdict.note(share);
    if (!(share <= 1)) {
      verdict.fail(fmt::format("{} row {}: {:.3g} times its bound {:.3g}", name, v, share, limit));
    }
  }
  return verdict;
}

Verdict expect_head(std::string_view name, DType dtype, FunctionRef<float(int64_t)> got,
                    const HeadVector<double>& exact, const HeadVector<double>& slack) {
  return expect_output(
      name, dtype, kDim, [&](int64_t i) { return static_cast<double>(got(i)); },
      [&](int64_t i) { return exact[static_cast<size_t>(i)]; },
      [&](int64_t i) { return slack[static_cast<size_t>(i)]; }, 1);
}

template <class Act>
Verdict expect_window(std::string_view name, const HistoryView<Act>& got, const Window<Act>& want) {
  Window<Act> has;
  load_window(got, &has);
  return expect_bitwise(name, std::as_bytes(std::span(has)), std::as_bytes(std::span(want)));
}

template Verdict expect_window(std::string_view, const HistoryView<bf16>&, const Window<bf16>&);
template Verdict expect_window(std::string_view, const HistoryView<float>&, const Window<float>&);

}  // namespace silt::kda
