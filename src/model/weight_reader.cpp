#include "model/weight_reader.hpp"

#include <algorithm>

#include "core/status.hpp"
#include "model/json.hpp"
#include "model/mxfp4.hpp"

namespace silt {
namespace {

// So much of a tensor is in memory at once where its values become something else.
constexpr size_t kBlockBytes = size_t{1} << 18;

/// Element `index` of values as a file has them: BF16, else F32.
float element(const StoredTensor& tensor, const std::byte* values, size_t index) {
  if (tensor.dtype == "BF16") {
    bf16 value;
    std::memcpy(&value, values + index * sizeof value, sizeof value);
    return to_float(value);
  }
  float value = 0;
  std::memcpy(&value, values + index * sizeof value, sizeof value);
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

/// Reads the first `rows` rows of `width` bytes, several at a time: body(first row, rows, bytes).
template <class Body>
Status for_blocks(const StoredTensor& tensor, int64_t rows, size_t width, Body&& body) {
  const int64_t most = std::max<int64_t>(1, static_cast<int64_t>(kBlockBytes / std::max<size_t>(width, 1)));
  std::vector<std::byte> block(static_cast<size_t>(std::min(most, rows)) * width);
  for (int64_t first = 0; first < rows; first += most) {
    const int64_t count = std::min(most, rows - first);
    const auto bytes = std::span(block).first(static_cast<size_t>(count) * width);
    SILT_TRY(tensor.read(static_cast<size_t>(first) * width, bytes));
    SILT_TRY(body(first, count, bytes.data()));
  }
  return {};
}

/// The first `count` values as To.
template <class To>
Status read_values(const StoredTensor& tensor, int64_t count, To* values) {
  const size_t width = tensor.dtype == "BF16" ? sizeof(bf16) : sizeof(float);
  return for_blocks(tensor, count, width, [&](int64_t first, int64_t read, const std::byte* block) -> Status {
    for (size_t i = 0; i < static_cast<size_t>(read); ++i) {
      const float value = element(tensor, block, i);
      if constexpr (std::is_same_v<To, bf16>) {
        values[static_cast<size_t>(first) + i] = to_bf16(value);
      } else {
        values[static_cast<size_t>(first) + i] = value;
      }
    }
    return {};
  });
}

}  // namespace

WeightReader::WeightReader(const Checkpoint& checkpoint, DType type, bool mxfp4, std::function<bool(double)> progress)
    : checkpoint_(checkpoint), type_(type), mxfp4_(mxfp4), progress_(std::move(progress)) {
  for (const auto& [name, tensor] : checkpoint_.tensors()) total_bytes_ += static_cast<int64_t>(tensor.bytes);
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
  current_ = name;
  *tensor = checkpoint_.find(name);
  if (*tensor == nullptr) return invalid("tensor {}: missing, needs to be there", printable(name));
  if (used_.insert(name).second) {
    bytes_ += static_cast<int64_t>((*tensor)->bytes);
    values_ += (*tensor)->elements();
    if (progress_ && total_bytes_ > 0 && !progress_(static_cast<double>(bytes_) / static_cast<double>(total_bytes_))) {
      return failed(StatusCode::exhausted, "model: cancelled after {} of {} bytes", bytes_, total_bytes_);
    }
  }
  return {};
}

Status WeightReader::typed_matrix(const std::string& name, int64_t rows, int64_t cols, DType type, HostMatrix* matrix) {
  const StoredTensor* tensor = nullptr;
  SILT_TRY(find(name, &tensor));
  SILT_TRY(check_dtype(name, *tensor));
  SILT_TRY(check_shape(name, *tensor, {{rows, cols}}));
  HostMatrix made(type, rows, cols);
  if ((tensor->dtype == "BF16") == (type == DType::bf16)) {
    SILT_TRY(tensor->read(0, {made.data.data(), static_cast<size_t>(tensor->bytes)}));
  } else if (type == DType::f32) {
    SILT_TRY(read_values(*tensor, rows * cols, made.data.as<float>()));
  } else {
    SILT_TRY(read_values(*tensor, rows * cols, made.data.as<bf16>()));
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
  const int64_t groups = cols / kMxfp4Group;
  std::vector<uint8_t> scales(static_cast<size_t>(rows * groups));
  SILT_TRY(scale->read(0, std::as_writable_bytes(std::span(scales))));
  if (const auto bad = std::find_if(scales.begin(), scales.end(), [](uint8_t s) { return s > kMostMxfp4Scale; });
      bad != scales.end()) {
    return invalid("tensor {}: row {}: has scale byte {}, needs at most {}", printable(scale_name),
                   (bad - scales.begin()) / groups, *bad, kMostMxfp4Scale);
  }
  const auto width = static_cast<size_t>(cols / 2);
  SILT_TRY(for_blocks(*packed, rows, width, [&](int64_t first, int64_t count, const std::byte* block) -> Status {
    for (int64_t i = 0; i < count; ++i) {
      const auto* bytes = reinterpret_cast<const uint8_t*>(block) + static_cast<size_t>(i) * width;
      const int64_t r = first + i;
      const auto row_scales =
          std::span<const uint8_t>(scales).subspan(static_cast<size_t>(r * groups), static_cast<size_t>(groups));
      if (type_ == DType::bf16) {
        expand_mxfp4_row({bytes, width}, row_scales, reinterpret_cast<bf16*>(made.row(r)));
      } else {
        expand_mxfp4_row({bytes, width}, row_scales, reinterpret_cast<float*>(made.row(r)));
      }
    }
    return {};
  }));
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
  return read_values(*tensor, tensor->elements(), values->data());
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
  return read_values(*tensor, least, values->data());
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
