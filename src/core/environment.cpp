#include "core/environment.hpp"

#include <cstdlib>

namespace silt {
namespace {

std::string read(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace

const Environment& environment() {
  static const Environment values{read("SILT_KERNEL"), read("SILT_LOG"), read("SILT_LOG_FILE")};
  return values;
}

}  // namespace silt
