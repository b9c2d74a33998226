#include "core/environment.hpp"

#include <cstdlib>

namespace silt {
namespace {

std::string read(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

bool is_set(const std::string& value) { return !value.empty() && value != "0"; }

}  // namespace

const Environment& environment() {
  static const Environment values{read("SILT_KERNEL"), read("SILT_LOG"), is_set(read("SILT_DEBUG")),
                                  read("SILT_LOG_FILE")};
  return values;
}

}  // namespace silt
