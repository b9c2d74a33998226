// Bytes in any pieces to valid UTF-8, and the search for stop strings in what comes out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace silt {

/// Holds an incomplete character back until the rest of it comes. What can never become one turns into U+FFFD, one per
/// longest valid beginning (the practice that the Unicode standard recommends).
class Utf8Stream {
 public:
  /// Appends what is decided after these bytes.
  void push(std::string_view bytes, std::string* text);
  /// The end: an incomplete character becomes U+FFFD.
  void finish(std::string* text);

 private:
  std::string pending_;  ///< a proper beginning of one character
};

/// Passes text on until a stop string appears; holds back what may be the beginning of one.
class StopFilter {
 public:
  explicit StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {}
  /// Appends what can go out. True once a stop string was found: what is before the first one has been passed on.
  bool push(std::string_view text, std::string* out);
  /// The end: what was held back goes out.
  void finish(std::string* out);

 private:
  std::vector<std::string> stops_;
  std::string held_;
};

}  // namespace silt
