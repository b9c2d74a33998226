#include "bench/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "bench/measure.hpp"

namespace silt::bench {

Progress::Progress(size_t cells, bool quiet)
    : cells_(cells), quiet_(quiet), terminal_(isatty(STDERR_FILENO) == 1), start_us_(now_us()) {}

Progress::~Progress() { clear(); }

void Progress::begin(size_t cell, const std::string& what) {
  cell_ = cell;
  what_ = what;
  if (quiet_) return;
  if (!terminal_) fmt::print(stderr, "[{}/{}] {}\n", cell + 1, cells_, what);
  update(0);
}

void Progress::update(double share) {
  if (quiet_ || !terminal_) return;
  const double done = (static_cast<double>(cell_) + share) / static_cast<double>(cells_);
  const double seconds = (now_us() - start_us_) * 1e-6;
  fmt::print(stderr, "\r\033[K[{}/{}] {:3.0f} %  {:.0f} s  {}", cell_ + 1, cells_, done * 100, seconds, what_);
  std::fflush(stderr);
  shown_ = true;
}

void Progress::clear() {
  if (!shown_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace silt::bench
