#include "proof/case_tensor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/status.hpp"

namespace silt {
namespace {

constexpr size_t kGuardBytes = 256;
constexpr std::byte kPoison{0xff};  // a NaN in bf16 and fp32, -1 in int32

}  // namespace

CaseTensor::CaseTensor(DType dtype, std::vector<int64_t> shape, std::vector<int64_t> stride, int64_t misalign)
    : dtype_(dtype), shape_(std::move(shape)), stride_(std::move(stride)), elements_(1) {
  if (stride_.empty()) {
    stride_.assign(shape_.size(), 1);
    for (size_t axis = shape_.size(); axis-- > 1;) stride_[axis - 1] = stride_[axis] * shape_[axis];
  }
  int64_t span = 1;
  for (size_t axis = 0; axis < shape_.size(); ++axis) {
    elements_ *= shape_[axis];
    span += (shape_[axis] - 1) * stride_[axis];
  }
  if (elements_ == 0) span = 0;
  const size_t element = size_of(dtype_);
  origin_bytes_ = kGuardBytes + static_cast<size_t>(misalign) * element;
  host_.assign(origin_bytes_ + static_cast<size_t>(span) * element + kGuardBytes, kPoison);
}

size_t CaseTensor::offset_bytes(int64_t index) const {
  int64_t offset = 0;
  for (size_t axis = shape_.size(); axis-- > 0;) {
    offset += index % shape_[axis] * stride_[axis];
    index /= shape_[axis];
  }
  return origin_bytes_ + static_cast<size_t>(offset) * size_of(dtype_);
}

float CaseTensor::get(int64_t index) const {
  const std::byte* at = host_.data() + offset_bytes(index);
  if (dtype_ == DType::bf16) {
    bf16 value;
    std::memcpy(&value, at, sizeof value);
    return to_float(value);
  }
  float value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

void CaseTensor::set(int64_t index, float value) {
  std::byte* at = host_.data() + offset_bytes(index);
  if (dtype_ == DType::bf16) {
    const bf16 rounded = to_bf16(value);
    std::memcpy(at, &rounded, sizeof rounded);
  } else {
    std::memcpy(at, &value, sizeof value);
  }
}

int32_t CaseTensor::get_int(int64_t index) const {
  int32_t value = 0;
  std::memcpy(&value, host_.data() + offset_bytes(index), sizeof value);
  return value;
}

void CaseTensor::set_int(int64_t index, int32_t value) {
  std::memcpy(host_.data() + offset_bytes(index), &value, sizeof value);
}

void CaseTensor::fill(FunctionRef<float(int64_t)> value) {
  for (int64_t i = 0; i < elements_; ++i) set(i, value(i));
}

void CaseTensor::poison() { std::fill(host_.begin(), host_.end(), kPoison); }

TensorView CaseTensor::view_at(std::byte* origin, Device device) const {
  TensorView view;
  if (!present()) return view;
  view.data = origin;
  view.dtype = dtype_;
  view.device = device;
  view.rank = static_cast<int32_t>(shape_.size());
  for (size_t axis = 0; axis < shape_.size(); ++axis) {
    view.shape[axis] = shape_[axis];
    view.stride[axis] = stride_[axis];
  }
  return view;
}

TensorView CaseTensor::host_view() { return view_at(host_.data() + origin_bytes_, {}); }

Status CaseTensor::to_device(Device device) {
  if (!present()) return {};
  mirror_ = std::make_shared<DeviceBuffer>();
  SILT_TRY(DeviceBuffer::make(device, host_.size(), mirror_.get()));
  return mirror_->upload(0, host_.data(), host_.size());
}

Status CaseTensor::from_device() {
  if (!present()) return {};
  return mirror_->download(0, host_.data(), host_.size());
}

TensorView CaseTensor::view() const {
  if (!present()) return {};
  return view_at(mirror_->data() + origin_bytes_, mirror_->device());
}

Verdict CaseTensor::outside_untouched(std::string_view name, const std::vector<std::byte>& before) const {
  if (!present()) return {};
  std::vector<std::byte> masked = host_;
  for (int64_t i = 0; i < elements_; ++i) {
    const size_t at = offset_bytes(i);
    std::copy_n(before.begin() + static_cast<std::ptrdiff_t>(at), size_of(dtype_),
                masked.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return expect_bitwise(fmt::format("{} outside its elements", name), masked, before);
}

Verdict CaseTensor::range_untouched(std::string_view name, const CaseTensor& before, int64_t begin, int64_t end) const {
  Verdict verdict;
  for (int64_t i = begin; i < end; ++i) {
    if (std::memcmp(host_.data() + offset_bytes(i), before.host_.data() + before.offset_bytes(i), size_of(dtype_)) !=
        0) {
      verdict.worst = std::numeric_limits<double>::infinity();
      verdict.fail(fmt::format("{}[{}]: has {}, needs {} unchanged", name, i, get(i), before.get(i)));
      return verdict;
    }
  }
  return verdict;
}

}  // namespace silt
