#include "model/products.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/no_memory.hpp"
#include "core/scratch.hpp"
#include "core/status.hpp"
#include "core/tasks.hpp"
#include "model/cpu/cpu_parts.hpp"

namespace silt {
namespace {

// A piece of work is one group of panels for so many rows: few enough that rows of a wide K stay in L2 beside the group
// and that a prompt's products split over many cores, and a multiple of every tile's rows.
constexpr int64_t kBlockRows = 120;
// K is cut where a group would leave L2 between two tiles of rows; sums wait in a tile of fp32 then.
constexpr int64_t kCutK = 2048;
// Below so many multiply-adds (some microseconds) the caller works alone.
constexpr int64_t kWorkAlone = 100000;

int64_t pairs_of(const Matrix& matrix) { return (matrix.k() + 1) / 2; }
int64_t panels_of(const Matrix& matrix) { return (matrix.n() + kPanelColumns - 1) / kPanelColumns; }
int64_t groups_of(const Matrix& matrix) { return (panels_of(matrix) + kGroupPanels - 1) / kGroupPanels; }
int64_t blocks_of(const Product& product) { return (product.y.shape[0] + kBlockRows - 1) / kBlockRows; }
int64_t pieces_of(const Product& product) { return blocks_of(product) * groups_of(*product.matrix); }

const TileKernels& kernels_of(const Matrix& matrix) {
  const CpuParts& parts = cpu_parts();
  if (matrix.type() == DType::bf16) return parts.bf16;
  return matrix.stored() == DType::bf16 ? parts.narrow : parts.f32;
}

// ---- packing

template <class From, class To>
void pack_group(const HostMatrix& rows, int64_t group, std::byte* panels) {
  const int64_t first_panel = group * kGroupPanels;
  const int64_t all_panels = (rows.rows + kPanelColumns - 1) / kPanelColumns;
  const int64_t width = std::min(kGroupPanels, all_panels - first_panel);
  const int64_t pairs = (rows.cols + 1) / 2;
  To* to = reinterpret_cast<To*>(panels) + first_panel * pairs * kPairValues;
  const auto* from = reinterpret_cast<const From*>(rows.data.data());
  constexpr bool kNarrow = sizeof(To) == 2;
  const int64_t first = first_panel * kPanelColumns;
  const int64_t columns = std::min(width * kPanelColumns, rows.rows - first);
  for (int64_t n = 0; n < columns; ++n) {
    const int64_t c = n % kPanelColumns;
    const From* row = from + (first + n) * rows.cols;
    To* panel = to + n / kPanelColumns * kPairValues;
    for (int64_t k = 0; k < rows.cols; ++k) {
      const int64_t place = kNarrow ? 2 * c + k % 2 : k % 2 * kPanelColumns + c;
      To* value = panel + k / 2 * width * kPairValues + place;
      if constexpr (std::is_same_v<From, To>) {
        *value = row[k];
      } else {
        *value = to_bf16(row[k]);
      }
    }
  }
}

bool bf16_holds(const HostMatrix& rows) {
  const auto* values = rows.data.as<float>();
  // The lower half of the bits is what rounding would take away.
  return std::all_of(values, values + rows.rows * rows.cols,
                     [](float value) { return (std::bit_cast<uint32_t>(value) & 0xffffU) == 0; });
}

// ---- rows of x in the type of the tiles

/// Where the tiles find the rows of a product.
struct Rows {
  const std::byte* data = nullptr;
  size_t step = 0;  ///< bytes
};

int64_t rows_of(const Product& product) { return product.y.shape[0]; }

/// Whether tiles can read x where it is; the last pair of an odd K has a second value that x need not have.
bool in_place(const Product& product) {
  return product.x.dtype == product.matrix->type() && product.x.dtype == kernels_of(*product.matrix).x &&
         product.matrix->k() % 2 == 0;
}

size_t to_lines(size_t bytes) {
  constexpr size_t kLine = 64;
  return (bytes + kLine - 1) / kLine * kLine;
}

size_t staged_step(const Product& product) {
  return to_lines(static_cast<size_t>(pairs_of(*product.matrix)) * 2 * size_of(kernels_of(*product.matrix).x));
}

bool same_rows(const Product& a, const Product& b) {
  return a.x.data == b.x.data && a.x.dtype == b.x.dtype && a.x.stride[0] == b.x.stride[0] &&
         a.x.shape[0] == b.x.shape[0] && a.matrix->k() == b.matrix->k() && a.matrix->type() == b.matrix->type();
}

/// One row: rounded to bf16 where the products are bf16, widened where the tiles want fp32.
void stage_row(const RowKernels& kernels, const Product& product, const void* from, std::byte* to) {
  const Matrix& matrix = *product.matrix;
  const int64_t k = matrix.k();
  const DType want = kernels_of(matrix).x;
  auto* wide = reinterpret_cast<float*>(to);
  kernels.convert[type_index(product.x.dtype)][type_index(want)](from, to, k);
  if (product.x.dtype == DType::f32 && matrix.type() != want) {
    for (int64_t i = 0; i < k; ++i) wide[i] = to_float(to_bf16(wide[i]));
  }
  if (k % 2 != 0) std::memset(to + static_cast<size_t>(k) * size_of(want), 0, size_of(want));
}

void stage_rows(const Product& product, const Rows& rows, int threads) {
  const RowKernels& kernels = cpu_parts().rows;
  const size_t step = static_cast<size_t>(product.x.stride[0]) * size_of(product.x.dtype);
  const int64_t count = product.x.shape[0];
  parallel_ranges(count, count * product.matrix->k() < kWorkAlone ? 1 : threads, [&](int64_t begin, int64_t end) {
    for (auto r = static_cast<size_t>(begin); r < static_cast<size_t>(end); ++r) {
      stage_row(kernels, product, static_cast<const std::byte*>(product.x.data) + r * step,
                const_cast<std::byte*>(rows.data) + r * rows.step);
    }
  });
}

/// The rows of every product: where they are, or made in the calling thread's scratch, once for products that share
/// them.
Status place_rows(std::span<const Product> products, int threads, std::span<const Rows>* placed) {
  const size_t table = to_lines(products.size() * sizeof(Rows));
  const auto own = [&](size_t i) {
    return !in_place(products[i]) && (i == 0 || !same_rows(products[i], products[i - 1]));
  };
  size_t bytes = table;
  for (size_t i = 0; i < products.size(); ++i) {
    if (own(i)) bytes += staged_step(products[i]) * static_cast<size_t>(products[i].x.shape[0]);
  }
  std::byte* scratch = nullptr;
  SILT_TRY(thread_scratch(bytes, &scratch));
  auto* rows = reinterpret_cast<Rows*>(scratch);
  std::byte* next = scratch + table;
  for (size_t i = 0; i < products.size(); ++i) {
    const Product& product = products[i];
    if (in_place(product)) {
      rows[i] = {static_cast<const std::byte*>(product.x.data),
                 static_cast<size_t>(product.x.stride[0]) * size_of(product.x.dtype)};
    } else if (!own(i)) {
      rows[i] = rows[i - 1];
    } else {
      rows[i] = {next, staged_step(product)};
      next += rows[i].step * static_cast<size_t>(product.x.shape[0]);
      stage_rows(product, rows[i], threads);
    }
  }
  *placed = {rows, products.size()};
  return {};
}

// ---- multiplying

/// Rows [first, first + count) of x, at most kBlockRows, times one group of panels; to fp32 columns at `y`.
void run_group(const Product& product, const Rows& rows, int64_t group, int64_t first, int64_t count, float* y,
               int64_t y_stride) {
  const Matrix& matrix = *product.matrix;
  const TileKernels& kernels = kernels_of(matrix);
  const int64_t first_panel = group * kGroupPanels;
  const int64_t width = std::min(kGroupPanels, panels_of(matrix) - first_panel);
  const size_t pair_bytes = static_cast<size_t>(kPairValues) * size_of(matrix.stored());
  const std::byte* panels = matrix.panels() + static_cast<size_t>(first_panel * pairs_of(matrix)) * pair_bytes;
  const std::byte* x[kMostTileRows];
  for (int64_t k = 0; k < matrix.k(); k += kCutK) {
    const size_t k_offset = static_cast<size_t>(k) * size_of(kernels.x);
    for (int64_t done = 0; done < count;) {
      // As even as possible: 8 rows are 4 and 4, not 6 and 2.
      const int64_t tiles = (count - done + kernels.most_rows - 1) / kernels.most_rows;
      const int64_t some = (count - done + tiles - 1) / tiles;
      for (int64_t r = 0; r < some; ++r) {
        const int64_t row = first + done + r;
        const int64_t source = product.x_rows == nullptr ? row : product.x_rows[row];
        x[r] = rows.data + static_cast<size_t>(source) * rows.step + k_offset;
      }
      ProductTile tile{.x = x,
                       .w = panels + static_cast<size_t>(k / 2 * width) * pair_bytes,
                       .w_step = width * kPairValues,
                       .pairs = (std::min(kCutK, matrix.k() - k) + 1) / 2,
                       .y = y + done * y_stride,
                       .y_stride = y_stride,
                       .go_on = k > 0,
                       .ahead = done + some == count ? width * pairs_of(matrix) * static_cast<int64_t>(pair_bytes) : 0};
      const auto kind = static_cast<size_t>(some - 1);
      if (width == kGroupPanels) {
        kernels.group[kind](tile);
      } else {
        for (int64_t j = 0; j < width; ++j, tile.w += pair_bytes, tile.y += kPanelColumns) kernels.panel[kind](tile);
      }
      done += some;
    }
  }
}

/// Piece `index` of a product: blocks of rows vary fastest, so that a thread reads a group from memory once.
void run_piece(const Product& product, const Rows& rows, int64_t index) {
  const Matrix& matrix = *product.matrix;
  const int64_t blocks = blocks_of(product);
  const int64_t first = index % blocks * kBlockRows;
  const int64_t group = index / blocks;
  const int64_t count = std::min(kBlockRows, rows_of(product) - first);
  const int64_t column = group * kGroupColumns;
  const int64_t columns = std::min(kGroupColumns, matrix.n() - column);
  const int64_t y_stride = product.y.stride[0];
  if (product.y.dtype == DType::f32 && columns % kPanelColumns == 0) {
    float* y = static_cast<float*>(product.y.data) + first * y_stride + column;
    run_group(product, rows, group, first, count, y, y_stride);
    return;
  }
  alignas(64) float sums[kBlockRows * kGroupColumns];
  run_group(product, rows, group, first, count, sums, kGroupColumns);
  const auto convert = cpu_parts().rows.convert[type_index(DType::f32)][type_index(product.y.dtype)];
  for (int64_t r = 0; r < count; ++r) {
    const auto to = static_cast<size_t>((first + r) * y_stride + column) * size_of(product.y.dtype);
    convert(sums + r * kGroupColumns, static_cast<std::byte*>(product.y.data) + to, columns);
  }
}

}  // namespace

std::string describe_products(Precision precision) {
  return fmt::format("{}, {}", cpu_parts().name, precision == Precision::bf16 ? "bf16 with fp32 sums" : "fp32");
}

int64_t Matrix::bytes() const {
  return panels_of(*this) * pairs_of(*this) * kPairValues * static_cast<int64_t>(size_of(stored_));
}

Status Matrix::pack(const HostMatrix& rows, int threads, WeightMemory* memory, Matrix* matrix) {
  Matrix made;
  made.n_ = rows.rows;
  made.k_ = rows.cols;
  made.type_ = rows.dtype;
  made.stored_ = rows.dtype == DType::f32 && !bf16_holds(rows) ? DType::f32 : DType::bf16;
  std::byte* panels = nullptr;
  SILT_TRY(with_memory([&] { return fmt::format("matrix product: {}x{} weights", made.n_, made.k_); },
                       [&]() -> Status {
                         panels = memory->take(static_cast<size_t>(made.bytes()));
                         return {};
                       }));
  const auto pack_one = made.stored_ == DType::f32 ? pack_group<float, float>
                        : rows.dtype == DType::f32 ? pack_group<float, bf16>
                                                   : pack_group<bf16, bf16>;
  parallel_ranges(groups_of(made), threads, [&](int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) pack_one(rows, group, panels);
  });
  made.panels_ = panels;
  *matrix = made;
  return {};
}

Status multiply(std::span<const Product> products, int threads) {
  std::span<const Rows> rows;
  SILT_TRY(place_rows(products, threads, &rows));
  int64_t pieces = 0;
  int64_t work = 0;
  for (const Product& product : products) {
    pieces += pieces_of(product);
    work += rows_of(product) * product.matrix->n() * product.matrix->k();
  }
  parallel_tasks(pieces, work < kWorkAlone ? 1 : threads, [&](int64_t begin, int64_t end) {
    int64_t before = 0;
    for (size_t p = 0; p < products.size() && before < end; ++p) {
      const int64_t count = pieces_of(products[p]);
      for (int64_t i = std::max(begin, before); i < std::min(end, before + count); ++i) {
        run_piece(products[p], rows[p], i - before);
      }
      before += count;
    }
  });
  return {};
}

}  // namespace silt
