// The safetensors reader on arbitrary bytes: a status or a table whose ranges all lie in the file, nothing else.
#include <cstdint>
#include <cstdlib>

#include "model/safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  silt::TensorTable tensors;
  const silt::Status status = silt::parse_safetensors(bytes, "fuzz", &tensors);
  if (!status.ok()) {
    for (const char c : status.message()) {
      if (c < 0x20 || c >= 0x7f) std::abort();  // one printable line
    }
    return 0;
  }
  size_t sum = 0;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.begin > size || tensor.bytes > size - tensor.begin) std::abort();
    for (const std::byte b : bytes.subspan(tensor.begin, tensor.bytes)) sum += static_cast<size_t>(b);
    if (tensor.elements() < 0) std::abort();
  }
  return sum == SIZE_MAX ? 1 : 0;
}
