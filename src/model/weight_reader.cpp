#include "model/weight_reader.hpp"

#include <algorithm>

#include "core/status.hpp"
#include "model/json.hpp"
#include "model/mxfp4.hpp"

namespace silt {
namespace {

/// Element `index` as fp32; the data of a mapped file has no alignment.
float element(const StoredTensor& tensor, size_t index) {
  if (tensor.dtype == "BF16") {
    bf16 value;
    std::memcpy(&value, tensor.data.data() + index * sizeof value, sizeof value);
    return to_float(value);
  }
  float value = 0;
  std::memcpy(&value, tensor.data.data() + index * sizeof value, sizeof value);
  return value;
}

Status check_dtype(const std::string& name, const StoredTensor& tensor) {
  if (tensor.dtype == "BF16" || tensor.dtype == "F32") return {};
  return invalid("tensor {}: dtype: has {}, needs BF16 or F32", printable(name), tensor.dtype);
}

Status check_shape(const std::string& name, const StoredTensor& tensor,
                   std::initializer_list<std::vector<int64_t>> shapes) {
  std::string needs;
  for (const std::vector<int64_t>& shape : shapes) {
    if (tensor.shape == shape) return {};
    needs += (needs.empty() ? "" : " or ") + shape_text(shape);
  }
  return invalid("tensor {}: shape: has {}, needs {}", printable(name), shape_text(tensor.shape), needs);
}

Status check_bytes(const std::string& name, const StoredTensor& tensor, const std::vector<int64_t>& shape) {
  if (tensor.dtype != "U8") return invalid("tensor {}: dtype: has {}, needs U8", printable(name), tensor.dtype);
  return check_shape(name, tensor, {shape});
}

std::span<const uint8_t> byte_row(const StoredTensor& tensor, int64_t row, int64_t width) {
  const auto* data = reinterpret_cast<const uint8_t*>(tensor.data.data());
  return {data + row * width, static_cast<size_t>(width)};
}

}  // namespace

WeightReader::WeightReader(const Checkpoint& checkpoint, DType type, bool mxfp4, std::function<void(double)> progress)
    : checkpoint_(checkpoint), type_(type), mxfp4_(mxfp4), progress_(std::move(progress)) {
  for (const auto& [name, tensor] : checkpoint_.tensors()) total_bytes_ += static_cast<int64_t>(tensor.data.size());
}

Status WeightReader::find_prefix(std::string* prefix) {
  for (const char* candidate : {"", "language_model."}) {
    if (!has(std::string(candidate) + "model.embed_tokens.weight")) continue;
    *prefix = candidate;
    return {};
  }
  return invalid(
      "tensor model.embed_tokens.weight: missing, needs to be there (or language_model.model.embed_tokens.weight)");
}

Status WeightReader::find(const std::string& name, const StoredTensor** tensor) {
  *tensor = checkpoint_.find(name);
  if (*tensor == nullptr) return invalid("tensor {}: missing, needs to be there", printable(name));
  if (used_.insert(name).second) {
    bytes_ += static_cast<int64_t>((*tensor)->data.size());
    values_ += (*tensor)->elements();
    if (progress_ && total_bytes_ > 0) progress_(static_cast<double>(bytes_) / static_cast<double>(total_bytes_));
  }
  return {};
}

Status WeightReader::typed_matrix(const std::string& name, int64_t rows, int64_t cols, DType type, HostMatrix* matrix) {
  const StoredTensor* tensor = nullptr;
  SILT_TRY(find(name, &tensor));
  SILT_TRY(check_dtype(name, *tensor));
  SILT_TRY(check_shape(name, *tensor, {{rows, cols}}));
  HostMatrix made(type, rows, cols);
  const auto count = static_cast<size_t>(rows) * static_cast<size_t>(cols);
  const bool same = (tensor->dtype == "BF16") == (type == DType::bf16);
  if (same) {
    std::memcpy(made.data.data(), tensor->data.data(), tensor->data.size());
  } else if (type == DType::f32) {
    for (size_t i = 0; i < count; ++i) made.data.as<float>()[i] = element(*tensor, i);
  } else {
    for (size_t i = 0; i < count; ++i) made.data.as<bf16>()[i] = to_bf16(element(*tensor, i));
  }
  *matrix = std::move(made);
  return {};
}

Status WeightReader::packed_matrix(const std::string& name, int64_t rows, int64_t cols, HostMatrix* matrix) {
  const std::string packed_name = name + "_packed";
  const std::string scale_name = name + "_scale";
  if (cols % kMxfp4Group != 0) {
    return invalid("tensor {}: has {} columns, needs a multiple of {}", printable(packed_name), cols, kMxfp4Group);
  }
  const StoredTensor* packed = nullptr;
  const StoredTensor* scale = nullptr;
  SILT_TRY(find(packed_name, &packed));
  SILT_TRY(find(scale_name, &scale));
  SILT_TRY(check_bytes(packed_name, *packed, {rows, cols / 2}));
  SILT_TRY(check_bytes(scale_name, *scale, {rows, cols / kMxfp4Group}));
  values_ += rows * cols - packed->elements() - scale->elements();
  HostMatrix made(type_, rows, cols);
  for (int64_t r = 0; r < rows; ++r) {
    const std::span<const uint8_t> scales = byte_row(*scale, r, cols / kMxfp4Group);
    if (const auto bad = std::find_if(scales.begin(), scales.end(), [](uint8_t s) { return s > kMostMxfp4Scale; });
        bad != scales.end()) {
      return invalid("tensor {}: row {}: has scale byte {}, needs at most {}", printable(scale_name), r, *bad,
                     kMostMxfp4Scale);
    }
    const std::span<const uint8_t> values = byte_row(*packed, r, cols / 2);
    if (type_ == DType::bf16) {
      expand_mxfp4_row(values, scales, reinterpret_cast<bf16*>(made.row(r)));
    } else {
      expand_mxfp4_row(values, scales, reinterpret_cast<float*>(made.row(r)));
    }
  }
  *matrix = std::move(made);
  return {};
}

Status WeightReader::matrix(const std::string& name, int64_t rows, int64_t cols, HostMatrix* matrix) {
  const std::string full = name + ".weight";
  if (mxfp4_ && !has(full) && has(full + "_packed")) return packed_matrix(full, rows, cols, matrix);
  return typed_matrix(full, rows, cols, type_, matrix);
}

Status WeightReader::matrix_as_stored(const std::string& name, int64_t rows, int64_t cols, HostMatrix* matrix) {
  const StoredTensor* tensor = checkpoint_.find(name + ".weight");
  const bool wide = tensor != nullptr && tensor->dtype == "F32";
  return typed_matrix(name + ".weight", rows, cols, wide ? DType::f32 : type_, matrix);
}

Status WeightReader::vector(const std::string& name, std::initializer_list<std::vector<int64_t>> shapes,
                            std::vector<float>* values) {
  const StoredTensor* tensor = nullptr;
  SILT_TRY(find(name, &tensor));
  SILT_TRY(check_dtype(name, *tensor));
  SILT_TRY(check_shape(name, *tensor, shapes));
  values->resize(static_cast<size_t>(tensor->elements()));
  for (size_t i = 0; i < values->size(); ++i) (*values)[i] = element(*tensor, i);
  return {};
}

Status WeightReader::vector_prefix(const std::string& name, int64_t least, std::vector<float>* values) {
  const StoredTensor* tensor = nullptr;
  SILT_TRY(find(name, &tensor));
  SILT_TRY(check_dtype(name, *tensor));
  if (tensor->elements() < least) {
    return invalid("tensor {}: shape: has {}, needs at least {} values", printable(name), shape_text(tensor->shape),
                   least);
  }
  values->resize(static_cast<size_t>(least));
  for (size_t i = 0; i < values->size(); ++i) (*values)[i] = element(*tensor, i);
  return {};
}

Status WeightReader::vector_bf16(const std::string& name, std::initializer_list<std::vector<int64_t>> shapes,
                                 std::vector<bf16>* values) {
  std::vector<float> wide;
  SILT_TRY(vector(name, shapes, &wide));
  values->resize(wide.size());
  for (size_t i = 0; i < wide.size(); ++i) {
    (*values)[i] = to_bf16(wide[i]);
    if (!(to_float((*values)[i]) == wide[i])) {
      return invalid("tensor {}: element {}: has {}, needs a value that bf16 holds", printable(name), i, wide[i]);
    }
  }
  return {};
}

Status WeightReader::all_used(const std::string& prefix) const {
  for (const auto& [name, tensor] : checkpoint_.tensors()) {
    const bool ours = name.starts_with(prefix + "model.") || name.starts_with(prefix + "lm_head.");
    if (ours && used_.find(name) == used_.end()) {
      return invalid("tensor {}: is not part of this architecture, needs to be absent", printable(name));
    }
  }
  return {};
}

}  // namespace silt
