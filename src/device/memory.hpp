// Memory on any device behind one handle, for tests, benchmarks and `silt check`; operators themselves allocate
// nothing.
#pragma once

#include <cstddef>

#include "silt/status.hpp"
#include "silt/tensor.hpp"

#include "core/buffer.hpp"

namespace silt {

class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer();

  static Status make(Device device, size_t bytes, DeviceBuffer* buffer);

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }
  [[nodiscard]] Device device() const { return device_; }

  Status upload(size_t offset, const void* source, size_t bytes) const;
  Status download(size_t offset, void* target, size_t bytes) const;

 private:
  void release();

  Device device_{};
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  Buffer host_;
};

/// Waits for everything on the stream (or the device's default stream).
Status synchronize(Device device, void* stream = nullptr);

}  // namespace silt
