// The library's own logger. It never touches spdlog's default logger, which belongs to the host program.
#pragma once

#include <string_view>

namespace silt {

void log_debug(std::string_view text);
void log_warning(std::string_view text);

}  // namespace silt
