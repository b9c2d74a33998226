// One line of progress on stderr, rewritten in place; nothing where stderr is not a terminal.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace silt::cli {

class Progress {
 public:
  Progress(std::string label, bool quiet = false);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  /// At most ten times a second.
  void show(std::string_view state);
  /// Takes the line away, before something else is printed.
  void clear();

 private:
  std::string label_;
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace silt::cli
