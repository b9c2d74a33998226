// Tensors of a checkpoint by name, in the shape and type that the decoder needs, or an error that names the tensor.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "silt/status.hpp"

#include "model/host_matrix.hpp"
#include "model/safetensors.hpp"

namespace silt {

class WeightReader {
 public:
  /// `type`: what matrices become. `mxfp4`: "<name>.weight" may be "<name>.weight_packed" and "<name>.weight_scale".
  WeightReader(const Checkpoint& checkpoint, DType type, bool mxfp4, std::function<bool(double)> progress);

  /// "<prefix>model." with the prefix that the checkpoint has: "" or "language_model.".
  Status find_prefix(std::string* prefix);

  /// "<name>.weight" of [rows, cols], bf16 or fp32, converted to the matrix type (fp32 is rounded to bf16 there).
  Status matrix(const std::string& name, int64_t rows, int64_t cols, HostMatrix* matrix);
  /// The same as fp32 where the checkpoint has fp32.
  Status matrix_as_stored(const std::string& name, int64_t rows, int64_t cols, HostMatrix* matrix);
  /// `name` with one of these shapes (a leading-axes rule of its own: `least` elements or more, only the first are
  /// taken), as fp32.
  Status vector(const std::string& name, std::initializer_list<std::vector<int64_t>> shapes,
                std::vector<float>* values);
  Status vector_prefix(const std::string& name, int64_t least, std::vector<float>* values);
  /// An fp32 tensor is taken where bf16 holds its values exactly.
  Status vector_bf16(const std::string& name, std::initializer_list<std::vector<int64_t>> shapes,
                     std::vector<bf16>* values);

  [[nodiscard]] bool has(const std::string& name) const { return checkpoint_.find(name) != nullptr; }
  /// Every tensor under "<prefix>model." and "<prefix>lm_head." has been read; else the decoder would pass over part of
  /// the model.
  Status all_used(const std::string& prefix) const;
  /// The tensor that was asked for last.
  [[nodiscard]] const std::string& current() const { return current_; }
  [[nodiscard]] int64_t values_read() const { return values_; }
  [[nodiscard]] int64_t bytes_read() const { return bytes_; }

 private:
  Status find(const std::string& name, const StoredTensor** tensor);
  Status typed_matrix(const std::string& name, int64_t rows, int64_t cols, DType type, HostMatrix* matrix);
  Status packed_matrix(const std::string& name, int64_t rows, int64_t cols, HostMatrix* matrix);

  const Checkpoint& checkpoint_;
  DType type_;
  bool mxfp4_;
  std::function<bool(double)> progress_;
  std::set<std::string, std::less<>> used_;
  std::string current_;
  int64_t total_bytes_ = 0;
  int64_t values_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace silt
