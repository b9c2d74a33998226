#include "device/memory.hpp"

#include <cstring>
#include <new>
#include <utility>

#include "core/status.hpp"
#include "device/backend.hpp"

namespace silt {

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : device_(other.device_),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      host_(std::move(other.host_)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  if (this != &other) {
    release();
    device_ = other.device_;
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    host_ = std::move(other.host_);
  }
  return *this;
}

DeviceBuffer::~DeviceBuffer() { release(); }

void DeviceBuffer::release() {
  if (const auto* gpu = backend::backend_of(device_.kind); gpu != nullptr && data_ != nullptr) {
    gpu->release(device_.index, data_);
  }
  data_ = nullptr;
}

Status DeviceBuffer::make(Device device, size_t bytes, DeviceBuffer* buffer) {
  DeviceBuffer made;
  made.device_ = device;
  made.bytes_ = bytes;
  if (const auto* gpu = backend::backend_of(device.kind); gpu != nullptr) {
    SILT_TRY(backend::at_hand(*gpu));
    void* data = nullptr;
    SILT_TRY(gpu->allocate(device.index, bytes, &data));
    made.data_ = static_cast<std::byte*>(data);
  } else {
    try {
      made.host_ = Buffer(bytes);
    } catch (const std::bad_alloc&) {
      return failed(StatusCode::out_of_memory, "memory: {} bytes: none left", bytes);
    }
    made.data_ = made.host_.data();
  }
  *buffer = std::move(made);
  return {};
}

Status DeviceBuffer::upload(size_t offset, const void* source, size_t bytes) const {
  if (bytes == 0) return {};
  if (const auto* gpu = backend::backend_of(device_.kind); gpu != nullptr) {
    return gpu->copy(device_.index, data_ + offset, source, bytes, backend::Copy::to_device);
  }
  std::memcpy(data_ + offset, source, bytes);
  return {};
}

Status DeviceBuffer::download(size_t offset, void* target, size_t bytes) const {
  if (bytes == 0) return {};
  if (const auto* gpu = backend::backend_of(device_.kind); gpu != nullptr) {
    return gpu->copy(device_.index, target, data_ + offset, bytes, backend::Copy::to_host);
  }
  std::memcpy(target, data_ + offset, bytes);
  return {};
}

Status synchronize(Device device, void* stream) {
  const auto* gpu = backend::backend_of(device.kind);
  if (gpu == nullptr) return {};
  SILT_TRY(backend::at_hand(*gpu));
  return gpu->synchronize(device.index, stream);
}

}  // namespace silt
