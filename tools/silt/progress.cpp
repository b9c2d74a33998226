#include "progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace silt::cli {
namespace {
constexpr auto kInterval = std::chrono::milliseconds(100);
constexpr std::string_view kEraseLine = "\r\033[K";
}  // namespace

Progress::Progress(std::string label, bool quiet)
    : label_(std::move(label)), terminal_(!quiet && isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() { clear(); }

void Progress::show(std::string_view state) {
  const auto now = std::chrono::steady_clock::now();
  if (!terminal_ || (shown_ && now - last_ < kInterval)) return;
  fmt::print(stderr, "{}{}: {}", kEraseLine, label_, state);
  std::fflush(stderr);
  shown_ = true;
  last_ = now;
}

void Progress::clear() {
  if (!shown_) return;
  fmt::print(stderr, "{}", kEraseLine);
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace silt::cli
