// What a person who waits sees on stderr: one line that is rewritten on a terminal, one line per cell elsewhere.
#pragma once

#include <string>

namespace silt::bench {

class Progress {
 public:
  Progress(size_t cells, bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void begin(size_t cell, const std::string& what);
  /// The share of the cell's contest that is done.
  void update(double share);
  /// Takes the rewritten line away, so that something else can be printed.
  void clear();

 private:
  size_t cells_;
  size_t cell_ = 0;
  bool quiet_;
  bool terminal_;
  bool shown_ = false;
  double start_us_ = 0;
  std::string what_;
};

}  // namespace silt::bench
