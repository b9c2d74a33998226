#include "device/hip_objects.hpp"

#include <algorithm>
#include <array>

namespace silt::hip {

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

}  // namespace silt::hip
