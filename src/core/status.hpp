// Makes status texts of one shape: "<operator>: <argument>: has X, needs Y".
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "silt/status.hpp"

namespace silt {

template <class... Args>
Status invalid(fmt::format_string<Args...> format, Args&&... args) {
  return {StatusCode::invalid_argument, fmt::format(format, std::forward<Args>(args)...)};
}

template <class... Args>
Status failed(StatusCode code, fmt::format_string<Args...> format, Args&&... args) {
  return {code, fmt::format(format, std::forward<Args>(args)...)};
}

}  // namespace silt

/// Leaves the enclosing function with the status of `expression` unless it is ok.
#define SILT_TRY(expression)                                                  \
  do {                                                                        \
    if (::silt::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)
