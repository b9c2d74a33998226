// The decoder's matrix products y[M, N] = x[M, K] * W[N, K]^T.
//
// W is packed once, when it is loaded, into panels that every instruction set reads (cpu/tiles.hpp). A product is cut
// into groups of panels and blocks of rows; the pieces of several products are shared out in one region of the
// library's workers. Neither the cut nor the number of threads decides how an element is summed: its bits depend on its
// row and its column alone.
#pragma once

#include <span>
#include <string_view>

#include "silt/model.hpp"
#include "silt/tensor.hpp"

#include "model/host_matrix.hpp"
#include "model/weight_memory.hpp"

namespace silt {

/// "cpu_avx512bf16, bf16 with fp32 sums"
std::string describe_products(Precision precision);

/// Packed weights; the bytes are the weight memory's, which outlives it.
class Matrix {
 public:
  /// The dtype of `rows` is the type of the products: bf16 or f32. fp32 weights that bf16 holds exactly are kept as
  /// bf16, and multiplied as fp32.
  static Status pack(const HostMatrix& rows, int threads, WeightMemory* memory, Matrix* matrix);

  [[nodiscard]] int64_t n() const { return n_; }
  [[nodiscard]] int64_t k() const { return k_; }
  [[nodiscard]] int64_t bytes() const;
  [[nodiscard]] DType type() const { return type_; }      ///< of the products
  [[nodiscard]] DType stored() const { return stored_; }  ///< of the packed weights
  [[nodiscard]] const std::byte* panels() const { return panels_; }

 private:
  int64_t n_ = 0;
  int64_t k_ = 0;
  DType type_ = DType::f32;
  DType stored_ = DType::f32;
  const std::byte* panels_ = nullptr;
};

/// x: bf16 or fp32 [M, K], y: bf16 or fp32 [M, N]; inner stride 1, row strides free. x of another type than the
/// products' is converted; y is rounded once.
struct Product {
  const Matrix* matrix = nullptr;
  ConstTensorView x;
  TensorView y;
  const int32_t* x_rows = nullptr;  ///< row r of y is made of row x_rows[r] of x; null: of row r
};

/// Independent products in one parallel region. No allocation, once the calling thread has run one as large.
Status multiply(std::span<const Product> products, int threads);
inline Status multiply(const Product& product, int threads) { return multiply(std::span(&product, 1), threads); }

}  // namespace silt
