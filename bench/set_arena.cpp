#include "bench/set_arena.hpp"

#include <algorithm>
#include <cstring>

#include "bench/gpu_protocol.hpp"
#include "core/status.hpp"
#include "proof/random.hpp"

namespace silt::bench {
namespace {

constexpr int64_t kStep = 1024;
// A prime number of values, so that repeats never line up with rows, and enough that a compressor finds nothing.
constexpr size_t kPatternValues = 1048573;

int64_t round_up(int64_t bytes) { return (bytes + kStep - 1) / kStep * kStep; }

std::vector<std::byte> pattern(DType dtype, float low, float high, uint64_t seed) {
  std::vector<std::byte> bytes(kPatternValues * size_of(dtype));
  Random random(seed);
  for (size_t i = 0; i < kPatternValues; ++i) {
    const float value = random.uniform(low, high);
    const bf16 rounded = to_bf16(value);
    if (dtype == DType::bf16) {
      std::memcpy(bytes.data() + i * sizeof rounded, &rounded, sizeof rounded);
    } else {
      std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
    }
  }
  return bytes;
}

}  // namespace

int SetArena::add(int64_t bytes, bool shared) {
  tensors_.push_back({round_up(bytes), shared, 0});
  return static_cast<int>(tensors_.size()) - 1;
}

int64_t SetArena::set_bytes() const {
  int64_t sum = 0;
  for (const Tensor& tensor : tensors_) sum += tensor.shared ? 0 : tensor.bytes;
  return sum;
}

Status SetArena::allocate(Device device, int64_t sets) {
  sets_ = sets;
  int64_t total = 0;
  for (Tensor& tensor : tensors_) {
    tensor.start = total;
    total += tensor.bytes * copies(tensor);
  }
  memory_ = DeviceBuffer();  // the old sets go first: both together may not fit
  return DeviceBuffer::make(device, static_cast<size_t>(total), &memory_);
}

int64_t SetArena::offset(int tensor, int64_t set) const {
  const Tensor& t = tensors_[static_cast<size_t>(tensor)];
  return t.start + (t.shared ? 0 : set * t.bytes);
}

std::byte* SetArena::at(int tensor, int64_t set) const { return memory_.data() + offset(tensor, set); }

Status SetArena::fill(int tensor, DType dtype, float low, float high, uint64_t seed) const {
  const Tensor& t = tensors_[static_cast<size_t>(tensor)];
  const int64_t bytes = t.bytes * copies(t);
  if (bytes == 0) return {};
  if (device().kind == DeviceKind::cuda) {
    const int64_t count = bytes / static_cast<int64_t>(size_of(dtype));
    return gpu::fill_uniform(device(), at(tensor, 0), dtype, count, low, high, seed);
  }
  const std::vector<std::byte> values = pattern(dtype, low, high, seed);
  for (int64_t done = 0; done < bytes;) {
    const int64_t piece = std::min(bytes - done, static_cast<int64_t>(values.size()));
    SILT_TRY(memory_.upload(static_cast<size_t>(offset(tensor, 0) + done), values.data(), static_cast<size_t>(piece)));
    done += piece;
  }
  return {};
}

Status SetArena::upload(int tensor, int64_t set, int64_t at, const void* source, int64_t bytes) const {
  return memory_.upload(static_cast<size_t>(offset(tensor, set) + at), source, static_cast<size_t>(bytes));
}

Status SetArena::download(int tensor, int64_t set, int64_t at, void* target, int64_t bytes) const {
  return memory_.download(static_cast<size_t>(offset(tensor, set) + at), target, static_cast<size_t>(bytes));
}

}  // namespace silt::bench
