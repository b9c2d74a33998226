#include "core/buffer.hpp"

#include <sys/mman.h>

#include <cstdint>

#include "core/no_memory.hpp"

namespace silt {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

size_t round_up(size_t bytes, size_t step) { return (bytes + step - 1) / step * step; }

}  // namespace

void detail::Unmap::operator()(std::byte* data) const { munmap(data, bytes); }

Buffer::Buffer(size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  if (bytes > SIZE_MAX / 2) throw NoMemory(bytes);
  // Large blocks start on a huge page: map one page more than asked and give the ends back.
  const bool large = bytes >= kHugePage;
  const size_t length = round_up(bytes, large ? kHugePage : size_t{4096});
  const size_t mapped = large ? length + kHugePage : length;
  void* raw = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) throw NoMemory(bytes);
  auto* begin = static_cast<std::byte*>(raw);
  if (large) {
    const size_t front = round_up(reinterpret_cast<uintptr_t>(begin), kHugePage) - reinterpret_cast<uintptr_t>(begin);
    if (front != 0) munmap(begin, front);
    if (front != kHugePage) munmap(begin + front + length, kHugePage - front);
    begin += front;
    madvise(begin, length, MADV_HUGEPAGE);
  }
  data_ = std::unique_ptr<std::byte, detail::Unmap>(begin, detail::Unmap{length});
}

}  // namespace silt
