#include "model/utf8.hpp"

#include <algorithm>
#include <cstdint>

namespace silt {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

enum class Match { complete, incomplete, wrong };

/// Bytes of a character by its first byte; 0 where none begins so.
size_t length_of(uint8_t first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return 2;
  if (first >= 0xE0 && first <= 0xEF) return 3;
  if (first >= 0xF0 && first <= 0xF4) return 4;
  return 0;
}

/// The second byte's range rules out long forms, surrogates and code points above U+10FFFF.
bool second_fits(uint8_t first, uint8_t second) {
  const uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  return second >= low && second <= high;
}

Match match(std::string_view bytes) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const size_t length = length_of(byte(0));
  if (length == 0) return Match::wrong;
  for (size_t i = 1; i < std::min(length, bytes.size()); ++i) {
    const bool fits = i == 1 ? second_fits(byte(0), byte(1)) : (byte(i) & 0xC0U) == 0x80U;
    if (!fits) return Match::wrong;
  }
  return bytes.size() < length ? Match::incomplete : Match::complete;
}

}  // namespace

void Utf8Stream::push(std::string_view bytes, std::string* text) {
  for (const char c : bytes) {
    pending_ += c;
    Match found = match(pending_);
    if (found == Match::wrong && pending_.size() > 1) {
      // The beginning so far is lost; this byte may begin a character of its own.
      *text += kReplacement;
      pending_.assign(1, c);
      found = match(pending_);
    }
    if (found == Match::incomplete) continue;
    *text += found == Match::complete ? std::string_view(pending_) : kReplacement;
    pending_.clear();
  }
}

void Utf8Stream::finish(std::string* text) {
  if (!pending_.empty()) *text += kReplacement;
  pending_.clear();
}

bool StopFilter::push(std::string_view text, std::string* out) {
  held_ += text;
  size_t found = std::string::npos;
  for (const std::string& stop : stops_) found = std::min(found, held_.find(stop));
  if (found != std::string::npos) {
    out->append(held_, 0, found);
    held_.clear();
    return true;
  }
  // The longest ending of the text that begins a stop string stays.
  size_t keep = 0;
  for (const std::string& stop : stops_) {
    for (size_t n = std::min(stop.size() - 1, held_.size()); n > keep; --n) {
      if (held_.compare(held_.size() - n, n, stop, 0, n) == 0) keep = n;
    }
  }
  out->append(held_, 0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return false;
}

void StopFilter::finish(std::string* out) {
  *out += held_;
  held_.clear();
}

}  // namespace silt
