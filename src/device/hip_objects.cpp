#include "device/hip_objects.hpp"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/status.hpp"

namespace silt::hip {
namespace {

/// A structure at an offset of the image; zeros where it would reach behind its end, which no reader below mistakes for
/// something found.
template <class T>
T read_at(std::span<const unsigned char> image, uint64_t offset) {
  T value{};
  if (offset <= image.size() && sizeof value <= image.size() - offset) {
    std::memcpy(&value, image.data() + offset, sizeof value);
  }
  return value;
}

Elf64_Shdr section(std::span<const unsigned char> image, const Elf64_Ehdr& header, uint64_t number) {
  return read_at<Elf64_Shdr>(image, header.e_shoff + number * header.e_shentsize);
}

bool is_named(std::span<const unsigned char> image, uint64_t offset, const std::string& name) {
  return offset <= image.size() && name.size() < image.size() - offset &&
         std::memcmp(image.data() + offset, name.c_str(), name.size() + 1) == 0;
}

}  // namespace

const CodeObject* find_code_object(std::string_view name, std::string_view isa) {
  for (const CodeObject& object : code_objects()) {
    if (object.name == name && object.isa == isa) return &object;
  }
  return nullptr;
}

bool is_built(std::string_view isa) {
  return std::any_of(code_objects().begin(), code_objects().end(),
                     [&](const CodeObject& object) { return object.isa == isa; });
}

std::string built_isas() {
  std::string text;
  for (const std::string_view isa : {"gfx942", "gfx950"}) {
    if (!is_built(isa)) continue;
    if (!text.empty()) text += ", ";
    text += isa;
  }
  return text;
}

/// The descriptor is the object `<symbol>.kd`, whose first words are LDS bytes, scratch bytes and argument bytes.
Status read_descriptor(const CodeObject& object, std::string_view symbol, KernelDescriptor* descriptor) {
  struct Words {
    uint32_t local_bytes, scratch_bytes, args_bytes;
  };
  const auto header = read_at<Elf64_Ehdr>(object.image, 0);
  const std::string name = std::string(symbol) + ".kd";
  for (uint64_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr symbols = section(object.image, header, i);
    if (symbols.sh_type != SHT_DYNSYM) continue;
    const Elf64_Shdr names = section(object.image, header, symbols.sh_link);
    for (uint64_t at = 0; at < symbols.sh_size; at += sizeof(Elf64_Sym)) {
      const auto entry = read_at<Elf64_Sym>(object.image, symbols.sh_offset + at);
      if (!is_named(object.image, names.sh_offset + entry.st_name, name)) continue;
      const Elf64_Shdr home = section(object.image, header, entry.st_shndx);
      const auto words = read_at<Words>(object.image, home.sh_offset + entry.st_value - home.sh_addr);
      *descriptor = {words.local_bytes, words.args_bytes};
      return {};
    }
  }
  return failed(StatusCode::device_error, "{} for {}: has no kernel {}", object.name, object.isa, symbol);
}

}  // namespace silt::hip
