// Matrix products and attention over a tile of the cache, on every instruction set at hand: against double precision,
// and what the decoder relies on: bits of a row do not depend on other rows, on threads or on the instruction set.
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <vector>

#include "model/cpu/cpu_parts.hpp"
#include "model/products.hpp"
#include "model/test/support.hpp"
#include "proof/random.hpp"

namespace silt {
namespace {

HostMatrix random_matrix(DType type, int64_t rows, int64_t cols, uint64_t seed) {
  Random random(seed);
  HostMatrix matrix(type, rows, cols);
  for (int64_t i = 0; i < rows * cols; ++i) {
    const float value = random.uniform(-1.0F, 1.0F);
    if (type == DType::bf16) {
      matrix.data.as<bf16>()[i] = to_bf16(value);
    } else {
      matrix.data.as<float>()[i] = value;
    }
  }
  return matrix;
}

TensorView rows_of(HostMatrix& matrix, int64_t rows, int64_t cols) {
  return detail::make_view<TensorView>(matrix.data.data(), matrix.dtype, {rows, cols}, {matrix.cols, 1}, Device{});
}

struct Shape {
  int64_t m, n, k;
};
// 1, edges of panels, groups, tiles, blocks of rows and cuts of K, odd K, primes.
const Shape kShapes[] = {{1, 1, 1},    {1, 64, 256},  {2, 65, 63},   {3, 79, 97},   {4, 16, 2},    {5, 48, 40},
                         {6, 63, 31},  {7, 113, 128}, {8, 8, 256},   {9, 80, 48},   {11, 15, 1},   {13, 17, 130},
                         {67, 2, 768}, {121, 65, 33}, {2, 67, 2049}, {119, 64, 24}, {241, 33, 16}, {14, 70, 4099}};

struct Types {
  DType weight, x, y;
};
const Types kTypes[] = {{DType::bf16, DType::bf16, DType::bf16}, {DType::bf16, DType::bf16, DType::f32},
                        {DType::bf16, DType::f32, DType::bf16},  {DType::f32, DType::f32, DType::f32},
                        {DType::f32, DType::bf16, DType::bf16},  {DType::f32, DType::bf16, DType::f32}};

/// y in strided rows with poison between them; x strided by a padding of 5.
/// `narrow`: fp32 weights that bf16 holds. `plant`: one weight is another one than the exact result knows.
Verdict check_product(const Shape& shape, const Types& types, bool narrow = false, bool plant = false) {
  HostMatrix w = random_matrix(types.weight, shape.n, shape.k, 1);
  for (int64_t i = 0; narrow && i < shape.n * shape.k; ++i) {
    w.data.as<float>()[i] = to_float(to_bf16(w.data.as<float>()[i]));
  }
  HostMatrix x = random_matrix(types.x, shape.m, shape.k + 5, 2);
  HostMatrix y(types.y, shape.m, shape.n + 3);
  std::memset(y.data.data(), 0xff, y.data.bytes());
  WeightMemory memory;
  Matrix packed;
  Verdict verdict;
  const Status made = Matrix::pack(w, 2, &memory, &packed);
  if (narrow != (types.weight == DType::f32 && packed.stored() == DType::bf16)) verdict.fail("kept in the wrong type");
  if (!made.ok()) verdict.fail(made.message());
  const Status ran = multiply({&packed, rows_of(x, shape.m, shape.k), rows_of(y, shape.m, shape.n)}, 2);
  if (!ran.ok()) verdict.fail(ran.message());
  const auto at = [&](int64_t i) { return std::pair(i / shape.n, i % shape.n); };
  const auto input = [&](int64_t r, int64_t c) {
    const float value = x.at(r, c);
    return static_cast<double>(types.weight == DType::bf16 ? to_float(to_bf16(value)) : value);
  };
  if (plant) std::swap(w.data.as<float>()[shape.n * shape.k - 1], w.data.as<float>()[0]);
  std::vector<double> exact(static_cast<size_t>(shape.m * shape.n));
  std::vector<double> magnitude(exact.size());
  for (size_t i = 0; i < exact.size(); ++i) {
    const auto [r, c] = at(static_cast<int64_t>(i));
    for (int64_t k = 0; k < shape.k; ++k) {
      const double term = input(r, k) * static_cast<double>(w.at(c, k));
      exact[i] += term;
      magnitude[i] += std::abs(term);
    }
  }
  verdict.merge(expect_output(
      "y", types.y, shape.m * shape.n, [&](int64_t i) { return static_cast<double>(y.at(at(i).first, at(i).second)); },
      [&](int64_t i) { return exact[static_cast<size_t>(i)]; },
      [&](int64_t i) { return sum_error(shape.k) * magnitude[static_cast<size_t>(i)]; }, 1));
  for (int64_t r = 0; r < shape.m; ++r) {
    for (int64_t c = shape.n; c < shape.n + 3; ++c) {
      if (!std::isnan(y.at(r, c))) verdict.fail(fmt::format("row {}: written behind its end", r));
    }
  }
  return verdict;
}

/// Every test runs on every instruction set that this CPU has.
class EveryTarget : public testing::TestWithParam<const CpuParts*> {
 protected:
  ForceCpuParts force_{*GetParam()};
};
class Products : public EveryTarget {};
class Attention : public EveryTarget {};
INSTANTIATE_TEST_SUITE_P(Cpu, Products, testing::ValuesIn(cpu_parts_here().begin(), cpu_parts_here().end()),
                         [](const auto& param) { return std::string(param.param->name); });
INSTANTIATE_TEST_SUITE_P(Cpu, Attention, testing::ValuesIn(cpu_parts_here().begin(), cpu_parts_here().end()),
                         [](const auto& param) { return std::string(param.param->name); });

TEST_P(Products, MatchDoublePrecision) {
  EXPECT_EQ(cpu_parts().name, GetParam()->name);
  for (const Types& types : kTypes) {
    for (const bool narrow : {false, true}) {
      if (narrow && types.weight == DType::bf16) continue;
      for (const Shape& shape : kShapes) {
        const Verdict verdict = check_product(shape, types, narrow);
        EXPECT_TRUE(verdict.ok) << shape.m << "x" << shape.n << "x" << shape.k << " " << to_string(types.weight) << " "
                                << to_string(types.x) << " " << to_string(types.y) << ": " << verdict.detail;
      }
    }
  }
}

TEST_P(Products, AWrongWeightIsFound) {
  EXPECT_FALSE(check_product({9, 80, 48}, {DType::f32, DType::f32, DType::f32}, false, true).ok);
  EXPECT_FALSE(check_product({1, 64, 256}, {DType::f32, DType::f32, DType::f32}, false, true).ok);
}

std::vector<float> product_rows(const Matrix& w, HostMatrix& x, int64_t first, int64_t count, int threads) {
  std::vector<float> y(static_cast<size_t>(count * w.n()));
  TensorView part = rows_of(x, count, w.k());
  part.data = x.row(first);
  EXPECT_TRUE(multiply({&w, part, view(y.data(), {count, w.n()})}, threads).ok());
  return y;
}

TEST_P(Products, RowsDoNotDependOnOtherRowsOrTheInstructionSet) {
  for (const DType type : {DType::bf16, DType::f32}) {
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{130, 96}, {64, 2304}, {24, 33}}) {
      WeightMemory memory;
      Matrix w;
      ASSERT_TRUE(Matrix::pack(random_matrix(type, n, k, 3), 2, &memory, &w).ok());
      HostMatrix x = random_matrix(type, 130, k, 4);
      const std::vector<float> all = product_rows(w, x, 0, 130, 2);
      for (const int64_t count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 65}) {
        for (const int64_t first : {int64_t{0}, int64_t{61}}) {
          const std::vector<float> some = product_rows(w, x, first, count, 1);
          const auto whole = std::span(all).subspan(static_cast<size_t>(first * n), some.size());
          EXPECT_TRUE(std::equal(some.begin(), some.end(), whole.begin())) << count << " rows of " << n << "x" << k;
        }
      }
      const ForceCpuParts best(*cpu_parts_here()[0]);
      if (GetParam()->name != "cpu_plain") {
        EXPECT_EQ(product_rows(w, x, 0, 130, 1), all) << n << "x" << k;
      }
    }
  }
}

TEST_P(Products, SeveralInOneRegion) {
  WeightMemory memory;
  Matrix a;
  Matrix b;
  ASSERT_TRUE(Matrix::pack(random_matrix(DType::bf16, 200, 32, 5), 1, &memory, &a).ok());
  ASSERT_TRUE(Matrix::pack(random_matrix(DType::bf16, 40, 32, 6), 1, &memory, &b).ok());
  HostMatrix x = random_matrix(DType::f32, 170, 32, 7);
  std::vector<float> together_a(170 * 200);
  std::vector<float> together_b(170 * 40);
  const Product products[] = {{&a, rows_of(x, 170, 32), view(together_a.data(), {170, 200})},
                              {&b, rows_of(x, 170, 32), view(together_b.data(), {170, 40})}};
  ASSERT_TRUE(multiply(products, 2).ok());
  EXPECT_EQ(together_a, product_rows(a, x, 0, 170, 1));
  EXPECT_EQ(together_b, product_rows(b, x, 0, 170, 1));
}

TEST_P(Products, RowsByIndex) {
  WeightMemory memory;
  Matrix w;
  ASSERT_TRUE(Matrix::pack(random_matrix(DType::bf16, 70, 34, 5), 1, &memory, &w).ok());
  for (const DType type : {DType::bf16, DType::f32}) {
    HostMatrix x = random_matrix(type, 40, 34, 7);
    const std::vector<float> all = product_rows(w, x, 0, 40, 1);
    const std::vector<int32_t> index = {39, 0, 7, 7, 21, 3, 38, 12, 5};
    std::vector<float> y(index.size() * 70);
    ASSERT_TRUE(multiply({&w, rows_of(x, 40, 34), view(y.data(), {9, 70}), index.data()}, 2).ok());
    for (size_t r = 0; r < index.size(); ++r) {
      EXPECT_TRUE(std::equal(y.begin() + static_cast<std::ptrdiff_t>(r * 70),
                             y.begin() + static_cast<std::ptrdiff_t>((r + 1) * 70), all.begin() + index[r] * 70))
          << r;
    }
  }
}

TEST_P(Products, NoRowsIsNoWork) {
  WeightMemory memory;
  Matrix w;
  ASSERT_TRUE(Matrix::pack(random_matrix(DType::f32, 4, 4, 8), 1, &memory, &w).ok());
  HostMatrix x(DType::f32, 1, 4);
  HostMatrix y(DType::f32, 1, 4);
  EXPECT_TRUE(multiply({&w, rows_of(x, 0, 4), rows_of(y, 0, 4)}, 2).ok());
  EXPECT_TRUE(multiply(std::span<const Product>(), 2).ok());
}

/// A tile of attention with its memory; NaN around what it may read and in what it shall write.
struct TileCase {
  int64_t rows, positions, width, latent;
  DType type = DType::f32;
  HostMatrix keys;
  HostMatrix queries;
  std::vector<float> scores;
  std::vector<float> factors;
  std::vector<float> sums;

  TileCase(int64_t r, int64_t p, int64_t w, int64_t l, DType t)
      : rows(r),
        positions(p),
        width(w),
        latent(l),
        type(t),
        keys(random_matrix(t, p, w, 9)),
        queries(random_matrix(DType::f32, r, w, 10)),
        scores(static_cast<size_t>(r * kTilePositions), std::nanf("")),
        factors(static_cast<size_t>(r), 0.5F),
        sums(static_cast<size_t>(r * l), 0.25F) {}
  void arrange(const AttentionKernels& kernels, int64_t row) {
    kernels.arrange[type_index(type)](queries.data.as<float>() + row * width, width);
  }
  AttentionTile tile(int64_t first, int64_t count) {
    return {.queries = queries.data.as<float>() + first * width,
            .rows = count,
            .keys = keys.data.data(),
            .positions = positions,
            .width = width,
            .latent = latent,
            .scores = scores.data() + first * kTilePositions,
            .factors = factors.data() + first,
            .sums = sums.data() + first * latent};
  }
};

TEST_P(Attention, ATileMatchesDoublePrecision) {
  const AttentionKernels& kernels = GetParam()->attention;
  for (const DType type : {DType::bf16, DType::f32}) {
    for (const auto& [rows, positions, width, latent] :
         {std::array<int64_t, 4>{1, 1, 1, 1}, {2, 64, 192, 128}, {7, 63, 24, 17}, {5, 3, 33, 32}, {6, 64, 80, 79}}) {
      TileCase whole(rows, positions, width, latent, type);
      for (int64_t r = 0; r < rows; ++r) whole.arrange(kernels, r);
      kernels.score[type_index(type)](whole.tile(0, rows));
      const HostMatrix queries = random_matrix(DType::f32, rows, width, 10);
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t p = 0; p < kTilePositions; ++p) {
          const auto got = static_cast<double>(whole.scores[static_cast<size_t>(r * kTilePositions + p)]);
          if (p >= positions) {
            EXPECT_TRUE(std::isnan(got)) << "written behind its end";
            continue;
          }
          double exact = 0;
          double magnitude = 0;
          for (int64_t c = 0; c < width; ++c) {
            const double term = static_cast<double>(queries.at(r, c)) * static_cast<double>(whole.keys.at(p, c));
            exact += term;
            magnitude += std::abs(term);
          }
          ASSERT_LE(std::abs(got - exact), sum_error(width) * magnitude) << rows << " " << positions << " " << width;
        }
      }
      kernels.mix[type_index(type)](whole.tile(0, rows));
      for (int64_t r = 0; r < rows; ++r) {
        kernels.restore[type_index(type)](whole.sums.data() + r * latent, latent);
        for (int64_t c = 0; c < latent; ++c) {
          double exact = 0.125;
          double magnitude = 0.125;
          for (int64_t p = 0; p < positions; ++p) {
            const double term = static_cast<double>(whole.scores[static_cast<size_t>(r * kTilePositions + p)]) *
                                static_cast<double>(whole.keys.at(p, c));
            exact += term;
            magnitude += std::abs(term);
          }
          ASSERT_LE(std::abs(static_cast<double>(whole.sums[static_cast<size_t>(r * latent + c)]) - exact),
                    sum_error(positions + 1) * magnitude);
        }
      }
      // Each row alone has the same bits.
      TileCase alone(rows, positions, width, latent, type);
      for (int64_t r = 0; r < rows; ++r) {
        alone.arrange(kernels, r);
        kernels.score[type_index(type)](alone.tile(r, 1));
        kernels.mix[type_index(type)](alone.tile(r, 1));
        kernels.restore[type_index(type)](alone.sums.data() + r * latent, latent);
      }
      EXPECT_EQ(alone.sums, whole.sums);
    }
  }
}

TEST_P(Attention, SoftmaxInTiles) {
  const AttentionKernels& kernels = GetParam()->attention;
  Random random(3);
  std::vector<float> values(150);
  for (float& v : values) v = random.uniform(-9.0F, 9.0F);
  float largest = -std::numeric_limits<float>::infinity();
  float total = 0;
  double sum = 0;
  double top = 0;
  for (const float v : values) top = std::max(top, 0.5 * static_cast<double>(v));
  for (const float v : values) sum += std::exp(0.5 * static_cast<double>(v) - top);
  for (size_t start = 0; start < values.size(); start += kTilePositions) {
    const size_t visible = std::min<size_t>(kTilePositions, values.size() - start);
    std::vector<float> row(kTilePositions, std::nanf(""));
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(start), visible, row.begin());
    const float before = largest;
    const float factor = kernels.softmax(row.data(), static_cast<int64_t>(visible), 0.5F, &largest, &total);
    EXPECT_EQ(factor == 0.0F, start == 0) << before;
    for (size_t i = 0; i < row.size(); ++i) {
      const double want =
          i < visible ? std::exp(0.5 * static_cast<double>(values[start + i]) - static_cast<double>(largest)) : 0.0;
      EXPECT_NEAR(static_cast<double>(row[i]), want, 8 * kFloatEpsilon * want) << i;
    }
  }
  EXPECT_EQ(static_cast<double>(largest), top);
  EXPECT_NEAR(static_cast<double>(total), sum, sum_error(150) * sum);
  std::vector<float> none(kTilePositions, std::nanf(""));
  EXPECT_EQ(kernels.softmax(none.data(), 0, 0.5F, &largest, &total), 1.0F);
  EXPECT_EQ(none, std::vector<float>(kTilePositions, 0.0F));
}

}  // namespace
}  // namespace silt
