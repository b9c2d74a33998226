#include "proof/case_tensor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/status.hpp"

#ifdef SILT_SANITIZES_ADDRESSES
#include <sanitizer/asan_interface.h>
#endif

namespace silt {
namespace {

constexpr size_t kGuardBytes = 256;
constexpr std::byte kPoison{0xff};  // a NaN in bf16 and fp32, -1 in int32

/// Under the address sanitizer nothing may touch these bytes until `open`.
void close(const std::byte* data, size_t bytes) {
#ifdef SILT_SANITIZES_ADDRESSES
  __asan_poison_memory_region(data, bytes);
#else
  static_cast<void>(data);
  static_cast<void>(bytes);
#endif
}

void open(const std::byte* data, size_t bytes) {
#ifdef SILT_SANITIZES_ADDRESSES
  __asan_unpoison_memory_region(data, bytes);
#else
  static_cast<void>(data);
  static_cast<void>(bytes);
#endif
}

}  // namespace

/// The memory that a kernel sees. On the CPU the sanitizer watches what lies before the first element of the view and
/// behind the last: a kernel that only reads there, which poison alone shows where it reaches a result, is caught too.
struct CaseTensor::Mirror {
  DeviceBuffer buffer;
  size_t begin = 0;  ///< bytes of the view
  size_t end = 0;

  Mirror() = default;
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;
  ~Mirror() { watch(open); }

  void watch(void (*guard)(const std::byte*, size_t)) const {
    if (buffer.device().kind != DeviceKind::cpu || buffer.data() == nullptr) return;
    guard(buffer.data(), begin);
    guard(buffer.data() + end, end == 0 ? 0 : kGuardBytes);
  }
};

const std::byte* CaseTensor::device_bytes() const { return mirror_->buffer.data(); }

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
  mirror_ = std::make_shared<Mirror>();
  SILT_TRY(DeviceBuffer::make(device, host_.size(), &mirror_->buffer));
  SILT_TRY(mirror_->buffer.upload(0, host_.data(), host_.size()));
  mirror_->begin = origin_bytes_;
  mirror_->end = host_.size() - kGuardBytes;
  mirror_->watch(close);
  return {};
}

Status CaseTensor::from_device() {
  if (!present()) return {};
  mirror_->watch(open);
  const Status status = mirror_->buffer.download(0, host_.data(), host_.size());
  mirror_->watch(close);
  return status;
}

TensorView CaseTensor::view() const {
  if (!present()) return {};
  return view_at(mirror_->buffer.data() + origin_bytes_, mirror_->buffer.device());
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
