// The decoder's matrix products y[M, N] = x[M, K] * W[N, K]^T, on oneDNN. Nothing else of the decoder knows oneDNN.
//
// oneDNN runs single-threaded here; the parallelism is ours: a product is cut into blocks of rows and panels of W, and
// the blocks of several products run in one region of the library's workers. So there is one thread pool, and neither
// the number of threads nor the cut decides how an element is summed.
//
// Rows: with oneDNN's brgemm kernels (AVX-512) a row's bits do not depend on how many rows go with it; test_products
// checks that. Its other kernels (gemm, AVX2) keep that only within the sum_error(K) bound of proof/compare.hpp.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "silt/model.hpp"
#include "silt/tensor.hpp"

#include "model/host_matrix.hpp"

namespace silt {

/// What the inner products are made of: bf16 pairs into fp32, or fp32.
enum class ProductType : int32_t { bf16, f32 };

/// bf16 where this CPU has bf16 products and oneDNN uses them, else fp32 (results are then rounded to bf16 where y is).
ProductType product_type(Precision precision);
std::string_view describe_products(Precision precision);

/// Weights in oneDNN's packed form.
class Matrix {
 public:
  Matrix();
  ~Matrix();
  Matrix(Matrix&& other) noexcept;
  Matrix& operator=(Matrix&& other) noexcept;

  /// The dtype of `rows` is the type of the products: bf16 or f32.
  static Status pack(const HostMatrix& rows, int threads, Matrix* matrix);

  [[nodiscard]] int64_t n() const;
  [[nodiscard]] int64_t k() const;
  [[nodiscard]] int64_t bytes() const;

  struct Parts;
  [[nodiscard]] const Parts& parts() const { return *parts_; }

 private:
  std::unique_ptr<Parts> parts_;
};

/// x: bf16 or fp32 [M, K], y: bf16 or fp32 [M, N]; inner stride 1, row strides free. x of another type than the
/// products' is converted; y is rounded once.
struct Product {
  const Matrix* matrix = nullptr;
  ConstTensorView x;
  TensorView y;
};

/// Independent products in one parallel region.
Status multiply(std::span<const Product> products, int threads);
inline Status multiply(const Product& product, int threads) { return multiply(std::span(&product, 1), threads); }
/// On the calling thread alone, for use inside a region.
Status multiply_here(const Product& product);

/// c[m, n] (+)= a[m, k] * b, fp32, on the calling thread; b is [k, n], or [n, k] where transposed. For attention over a
/// cache. A row's bits do not depend on m for 2 <= m <= kMostSmallRows (measured; test_products); callers pad to 2.
constexpr int64_t kMostSmallRows = 12;
struct SmallProduct {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  const float* a = nullptr;
  int64_t a_stride = 0;
  const float* b = nullptr;
  int64_t b_stride = 0;
  bool b_transposed = false;
  float* c = nullptr;
  int64_t c_stride = 0;
  bool add = false;
};
Status multiply_small(const SmallProduct& product);

}  // namespace silt
