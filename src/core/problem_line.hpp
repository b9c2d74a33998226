// The grammar that names a case everywhere: "<operator> key=value key=value ...".
//
// A problem struct lists its fields once, in `template <class V> void fields(V& visit)`, in declaration order:
//   visit.size("t", t);                            always printed, required when parsed
//   visit.product("seqs", n, length);              two sizes, "8x1024"
//   visit.value("align", align, 16);               printed where it differs from the default
//   visit.choice("state", state, DType::f32, {...})
// LinePrinter and LineParser are the two visitors, so that what is printed parses back.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "silt/status.hpp"

namespace silt {

/// The words of a line. Keys are unique; values are not empty.
struct ProblemLine {
  std::string op;
  std::vector<std::pair<std::string, std::string>> fields;
};

Status parse_line(std::string_view text, ProblemLine* line);

/// A whole decimal number; false on anything else, overflow included.
bool parse_number(std::string_view text, int64_t* number);
bool parse_number(std::string_view text, float* number);

template <class E>
struct Named {
  E value;
  std::string_view name;
};

class LinePrinter {
 public:
  explicit LinePrinter(std::string_view op) : text_(op) {}

  void size(std::string_view key, int64_t value) { text_ += fmt::format(" {}={}", key, value); }
  void product(std::string_view key, int64_t count, int64_t each) {
    text_ += fmt::format(" {}={}x{}", key, count, each);
  }
  void value(std::string_view key, int64_t value, int64_t standard) {
    if (value != standard) size(key, value);
  }
  void real(std::string_view key, float value, float standard) {
    if (value != standard) text_ += fmt::format(" {}={}", key, value);
  }
  void flag(std::string_view key, bool value, bool standard) {
    if (value != standard) text_ += fmt::format(" {}={}", key, value ? 1 : 0);
  }
  template <class E>
  void choice(std::string_view key, E value, E standard, std::span<const Named<E>> names) {
    if (value == standard) return;
    for (const auto& item : names) {
      if (item.value == value) text_ += fmt::format(" {}={}", key, item.name);
    }
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// Fills fields from a parsed line; `finish` reports the first wrong, missing or unknown one.
class LineParser {
 public:
  explicit LineParser(const ProblemLine& line) : line_(line), used_(line.fields.size(), false) {}

  void size(std::string_view key, int64_t& value) {
    if (!number(key, value)) complain(fmt::format("{}: {}: missing, needs a number", line_.op, key));
    keys_ += fmt::format(" {}", key);
  }
  void product(std::string_view key, int64_t& count, int64_t& each) {
    const std::string* text = find(key);
    const size_t cross = text == nullptr ? std::string::npos : text->find('x');
    if (cross == std::string::npos || !parse_number(std::string_view(*text).substr(0, cross), &count) ||
        !parse_number(std::string_view(*text).substr(cross + 1), &each)) {
      complain(fmt::format("{}: {}: has \"{}\", needs two whole numbers, as in 8x1024", line_.op, key,
                           text == nullptr ? "" : *text));
    }
    keys_ += fmt::format(" {}", key);
  }
  void value(std::string_view key, int64_t& value, int64_t standard) {
    value = standard;
    number(key, value);
    keys_ += fmt::format(" {}", key);
  }
  void real(std::string_view key, float& value, float standard) {
    value = standard;
    if (const std::string* text = find(key); text != nullptr && !parse_number(*text, &value)) {
      complain(fmt::format("{}: {}: has \"{}\", needs a number", line_.op, key, *text));
    }
    keys_ += fmt::format(" {}", key);
  }
  void flag(std::string_view key, bool& value, bool standard) {
    int64_t number_value = standard ? 1 : 0;
    if (number(key, number_value) && number_value != 0 && number_value != 1) {
      complain(fmt::format("{}: {}: has {}, needs 0 or 1", line_.op, key, number_value));
    }
    value = number_value == 1;
    keys_ += fmt::format(" {}", key);
  }
  template <class E>
  void choice(std::string_view key, E& value, E standard, std::span<const Named<E>> names) {
    value = standard;
    keys_ += fmt::format(" {}", key);
    const std::string* text = find(key);
    if (text == nullptr) return;
    std::string known;
    for (const auto& item : names) {
      if (item.name == *text) {
        value = item.value;
        return;
      }
      known += fmt::format("{}{}", known.empty() ? "" : ", ", item.name);
    }
    complain(fmt::format("{}: {}: has \"{}\", needs one of {}", line_.op, key, *text, known));
  }
  /// The problem's own rule, told after its fields were read.
  void demand(bool condition, const std::string& complaint) {
    if (!condition) complain(complaint);
  }
  [[nodiscard]] Status finish();

 private:
  const std::string* find(std::string_view key);
  bool number(std::string_view key, int64_t& value);
  void complain(std::string text);

  const ProblemLine& line_;
  std::vector<bool> used_;
  std::string keys_;
  std::string complaint_;
};

}  // namespace silt
