// The four environment variables of the library, read once at first use. There are no others.
#pragma once

#include <string>

namespace silt {

struct Environment {
  std::string kernel;     ///< SILT_KERNEL: a kernel name, or "operator=name" pairs separated by commas
  std::string log_level;  ///< SILT_LOG: trace, debug, info, warn (default), error, off
  bool debug = false;  ///< SILT_DEBUG: anything but empty or 0; values are checked before a launch (dispatch/debug.hpp)
  std::string log_target;  ///< SILT_LOG_FILE: a file to append to; empty is stderr
};

const Environment& environment();

}  // namespace silt
