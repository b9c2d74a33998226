// Matrix products against double precision, and what the decoder relies on: bits of a row do not depend on other rows
// or on the number of threads.
#include <gtest/gtest.h>

#include <vector>

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
// 1, block edges, primes, several panels and several blocks of rows.
const Shape kShapes[] = {{1, 1, 1},    {1, 128, 256}, {2, 129, 64},   {3, 130, 96},  {5, 257, 40}, {8, 8, 256},
                         {9, 320, 48}, {13, 64, 128}, {64, 192, 128}, {65, 131, 72}, {67, 2, 768}, {200, 257, 256}};

struct Types {
  DType weight, x, y;
};
const Types kTypes[] = {{DType::bf16, DType::bf16, DType::bf16}, {DType::bf16, DType::bf16, DType::f32},
                        {DType::bf16, DType::f32, DType::bf16},  {DType::f32, DType::f32, DType::f32},
                        {DType::f32, DType::bf16, DType::bf16},  {DType::f32, DType::bf16, DType::f32}};

bool runs_here(const Types& types) {
  return types.weight == DType::f32 || product_type(Precision::bf16) == ProductType::bf16;
}

/// y in strided rows with poison between them; x strided by a padding of 5.
Verdict check_product(const Shape& shape, const Types& types) {
  HostMatrix w = random_matrix(types.weight, shape.n, shape.k, 1);
  HostMatrix x = random_matrix(types.x, shape.m, shape.k + 5, 2);
  HostMatrix y(types.y, shape.m, shape.n + 3);
  std::memset(y.data.data(), 0xff, y.data.bytes());
  Matrix packed;
  Verdict verdict;
  const Status made = Matrix::pack(w, 2, &packed);
  if (!made.ok()) verdict.fail(made.message());
  const Status ran = multiply({&packed, rows_of(x, shape.m, shape.k), rows_of(y, shape.m, shape.n)}, 2);
  if (!ran.ok()) verdict.fail(ran.message());
  const auto at = [&](int64_t i) { return std::pair(i / shape.n, i % shape.n); };
  const auto input = [&](int64_t r, int64_t c) {
    const float value = x.at(r, c);
    return static_cast<double>(types.weight == DType::bf16 ? to_float(to_bf16(value)) : value);
  };
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

TEST(Products, MatchDoublePrecision) {
  for (const Types& types : kTypes) {
    if (!runs_here(types)) continue;
    for (const Shape& shape : kShapes) {
      const Verdict verdict = check_product(shape, types);
      EXPECT_TRUE(verdict.ok) << shape.m << "x" << shape.n << "x" << shape.k << " " << to_string(types.weight) << " "
                              << to_string(types.x) << " " << to_string(types.y) << ": " << verdict.detail;
    }
  }
}

std::vector<float> product_rows(const Matrix& w, HostMatrix& x, int64_t first, int64_t count, int threads) {
  std::vector<float> y(static_cast<size_t>(count * w.n()));
  TensorView part = rows_of(x, count, w.k());
  part.data = x.row(first);
  EXPECT_TRUE(multiply({&w, part, view(y.data(), {count, w.n()})}, threads).ok());
  return y;
}

TEST(Products, RowsDoNotDependOnOtherRows) {
  for (const DType type : {DType::bf16, DType::f32}) {
    if (!runs_here({type, type, type})) continue;
    for (const auto& [n, k] :
         {std::pair<int64_t, int64_t>{256, 256}, {130, 256}, {192, 128}, {128, 96}, {256, 768}, {64, 2304}}) {
      Matrix w;
      ASSERT_TRUE(Matrix::pack(random_matrix(type, n, k, 3), 2, &w).ok());
      HostMatrix x = random_matrix(type, 130, k, 4);
      const std::vector<float> all = product_rows(w, x, 0, 130, 2);
      for (const int64_t count : {1, 2, 3, 5, 7, 8, 9, 16, 33, 64, 65}) {
        for (const int64_t first : {int64_t{0}, int64_t{61}}) {
          const std::vector<float> some = product_rows(w, x, first, count, 1);
          const auto whole = std::span(all).subspan(static_cast<size_t>(first * n), some.size());
          if (products_keep_rows()) {
            EXPECT_TRUE(std::equal(some.begin(), some.end(), whole.begin())) << count << " rows of " << n << "x" << k;
          } else {
            EXPECT_LE(difference(some, whole).worst, sum_error(k) * static_cast<double>(k));
          }
        }
      }
    }
  }
}

TEST(Products, SeveralInOneRegion) {
  Matrix a;
  Matrix b;
  ASSERT_TRUE(Matrix::pack(random_matrix(DType::f32, 200, 32, 5), 1, &a).ok());
  ASSERT_TRUE(Matrix::pack(random_matrix(DType::f32, 40, 32, 6), 1, &b).ok());
  HostMatrix x = random_matrix(DType::f32, 70, 32, 7);
  std::vector<float> together_a(70 * 200);
  std::vector<float> together_b(70 * 40);
  const Product products[] = {{&a, rows_of(x, 70, 32), view(together_a.data(), {70, 200})},
                              {&b, rows_of(x, 70, 32), view(together_b.data(), {70, 40})}};
  ASSERT_TRUE(multiply(products, 2).ok());
  EXPECT_EQ(together_a, product_rows(a, x, 0, 70, 1));
  EXPECT_EQ(together_b, product_rows(b, x, 0, 70, 1));
}

TEST(Products, NoRowsIsNoWork) {
  Matrix w;
  ASSERT_TRUE(Matrix::pack(random_matrix(DType::f32, 4, 4, 8), 1, &w).ok());
  HostMatrix x(DType::f32, 1, 4);
  HostMatrix y(DType::f32, 1, 4);
  EXPECT_TRUE(multiply({&w, rows_of(x, 0, 4), rows_of(y, 0, 4)}, 2).ok());
}

TEST(SmallProducts, MatchDoublePrecisionAndKeepTheirRows) {
  for (const bool transposed : {true, false}) {
    for (const int64_t width : {24, 128, 576}) {
      const int64_t n = transposed ? 64 : width;
      const int64_t k = transposed ? width : 64;
      HostMatrix a = random_matrix(DType::f32, kMostSmallRows, k, 9);
      HostMatrix b = random_matrix(DType::f32, transposed ? n : k, (transposed ? k : n) + 8, 10);
      const auto run = [&](int64_t m, bool add) {
        std::vector<float> c(static_cast<size_t>(m * n), add ? 0.5F : std::nanf(""));
        EXPECT_TRUE(
            multiply_small({m, n, k, a.data.as<float>(), k, b.data.as<float>(), b.cols, transposed, c.data(), n, add})
                .ok());
        return c;
      };
      for (const bool add : {false, true}) {
        const std::vector<float> all = run(kMostSmallRows, add);
        for (int64_t i = 0; i < kMostSmallRows * n; ++i) {
          double exact = add ? 0.5 : 0.0;
          for (int64_t j = 0; j < k; ++j) {
            const float right = transposed ? b.at(i % n, j) : b.at(j, i % n);
            exact += static_cast<double>(a.at(i / n, j)) * static_cast<double>(right);
          }
          ASSERT_NEAR(static_cast<double>(all[static_cast<size_t>(i)]), exact, sum_error(k) * static_cast<double>(k));
        }
        for (int64_t m = 2; m < kMostSmallRows; ++m) {
          const std::vector<float> some = run(m, add);
          if (products_keep_rows()) {
            EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin())) << m;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace silt
