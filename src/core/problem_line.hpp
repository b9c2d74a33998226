// The grammar that names a case everywhere: "<operator> key=value key=value ...".
//
// A problem struct lists its fields once, in `template <class V> void fields(V& visit)`, in declaration order:
//   visit.size("t", t);                            always printed, required when parsed
//   visit.product("seqs", n, length);              two sizes, "8x1024"
//   visit.value("align", align, 16);               printed where it differs from the default
//   visit.choice("state", state, DType::f32, {...})
// LinePrinter and LineParser are the two visitors, so that what is printed parses back. (No fmt in this header: problem
// structs are included by CUDA sources, and nvcc does not take its compile-time format checks.)
#pragma once

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

  void size(std::string_view key, int64_t value);
  void product(std::string_view key, int64_t count, int64_t each);
  void value(std::string_view key, int64_t value, int64_t standard) {
    if (value != standard) size(key, value);
  }
  void real(std::string_view key, float value, float standard);
  void flag(std::string_view key, bool value, bool standard) { this->value(key, value ? 1 : 0, standard ? 1 : 0); }
  template <class E>
  void choice(std::string_view key, E value, E standard, std::span<const Named<E>> names) {
    if (value == standard) return;
    for (const auto& item : names) {
      if (item.value == value) word(key, item.name);
    }
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  void word(std::string_view key, std::string_view value);

  std::string text_;
};

/// Fills fields from a parsed line; `finish` reports the first wrong, missing or unknown one.
class LineParser {
 public:
  explicit LineParser(const ProblemLine& line) : line_(line), used_(line.fields.size(), false) {}

  void size(std::string_view key, int64_t& value);
  void product(std::string_view key, int64_t& count, int64_t& each);
  void value(std::string_view key, int64_t& value, int64_t standard);
  void real(std::string_view key, float& value, float standard);
  void flag(std::string_view key, bool& value, bool standard);
  template <class E>
  void choice(std::string_view key, E& value, E standard, std::span<const Named<E>> names) {
    value = standard;
    note(key);
    const std::string* text = find(key);
    if (text == nullptr) return;
    std::string known;
    for (const auto& item : names) {
      if (item.name == *text) {
        value = item.value;
        return;
      }
      if (!known.empty()) known += ", ";
      known += item.name;
    }
    complain_choice(key, *text, known);
  }
  /// The problem's own rule, told after its fields were read.
  void demand(bool condition, const std::string& complaint) {
    if (!condition) complain(complaint);
  }
  [[nodiscard]] Status finish();

 private:
  const std::string* find(std::string_view key);
  bool number(std::string_view key, int64_t& value);
  void note(std::string_view key);
  void complain(std::string text);
  void complain_choice(std::string_view key, const std::string& text, const std::string& known);

  const ProblemLine& line_;
  std::vector<bool> used_;
  std::string keys_;
  std::string complaint_;
};

}  // namespace silt
