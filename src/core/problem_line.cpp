#include "core/problem_line.hpp"

#include <charconv>
#include <cmath>

#include "core/status.hpp"

namespace silt {

Status parse_line(std::string_view text, ProblemLine* line) {
  *line = {};
  size_t at = 0;
  const auto next_word = [&]() {
    at = text.find_first_not_of(" \t\r\n", at);
    if (at == std::string_view::npos) return std::string_view();
    const size_t end = std::min(text.find_first_of(" \t\r\n", at), text.size());
    const std::string_view word = text.substr(at, end - at);
    at = end;
    return word;
  };
  line->op = next_word();
  if (line->op.empty()) return invalid("problem line: empty, needs \"<operator> key=value ...\"");
  for (std::string_view word = next_word(); !word.empty(); word = next_word()) {
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == word.size()) {
      return invalid("{}: \"{}\": needs key=value", line->op, word);
    }
    const std::string_view key = word.substr(0, equals);
    for (const auto& field : line->fields) {
      if (field.first == key) return invalid("{}: {}: given twice", line->op, key);
    }
    line->fields.emplace_back(key, word.substr(equals + 1));
    if (at == std::string_view::npos) break;
  }
  return {};
}

bool parse_number(std::string_view text, int64_t* number) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), *number);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

bool parse_number(std::string_view text, float* number) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), *number);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

void LinePrinter::size(std::string_view key, int64_t value) { text_ += fmt::format(" {}={}", key, value); }

void LinePrinter::product(std::string_view key, int64_t count, int64_t each) {
  text_ += fmt::format(" {}={}x{}", key, count, each);
}

void LinePrinter::real(std::string_view key, float value, float standard) {
  if (value != standard) text_ += fmt::format(" {}={}", key, value);
}

void LinePrinter::word(std::string_view key, std::string_view value) { text_ += fmt::format(" {}={}", key, value); }

const std::string* LineParser::find(std::string_view key) {
  for (size_t i = 0; i < line_.fields.size(); ++i) {
    if (line_.fields[i].first == key) {
      used_[i] = true;
      return &line_.fields[i].second;
    }
  }
  return nullptr;
}

bool LineParser::number(std::string_view key, int64_t& value) {
  const std::string* text = find(key);
  if (text == nullptr) return false;
  if (!parse_number(*text, &value)) {
    complain(fmt::format("{}: {}: has \"{}\", needs a whole number", line_.op, key, *text));
  }
  return true;
}

void LineParser::size(std::string_view key, int64_t& value) {
  if (!number(key, value)) complain(fmt::format("{}: {}: missing, needs a number", line_.op, key));
  note(key);
}

void LineParser::product(std::string_view key, int64_t& count, int64_t& each) {
  const std::string* text = find(key);
  const size_t cross = text == nullptr ? std::string::npos : text->find('x');
  if (cross == std::string::npos || !parse_number(std::string_view(*text).substr(0, cross), &count) ||
      !parse_number(std::string_view(*text).substr(cross + 1), &each)) {
    complain(fmt::format("{}: {}: has \"{}\", needs two whole numbers, as in 8x1024", line_.op, key,
                         text == nullptr ? "" : *text));
  }
  note(key);
}

void LineParser::value(std::string_view key, int64_t& value, int64_t standard) {
  value = standard;
  number(key, value);
  note(key);
}

void LineParser::real(std::string_view key, float& value, float standard) {
  value = standard;
  if (const std::string* text = find(key); text != nullptr && !parse_number(*text, &value)) {
    complain(fmt::format("{}: {}: has \"{}\", needs a number", line_.op, key, *text));
  }
  note(key);
}

void LineParser::flag(std::string_view key, bool& value, bool standard) {
  int64_t number_value = standard ? 1 : 0;
  if (number(key, number_value) && number_value != 0 && number_value != 1) {
    complain(fmt::format("{}: {}: has {}, needs 0 or 1", line_.op, key, number_value));
  }
  value = number_value == 1;
  note(key);
}

void LineParser::note(std::string_view key) { keys_ += fmt::format(" {}", key); }

void LineParser::complain_choice(std::string_view key, const std::string& text, const std::string& known) {
  complain(fmt::format("{}: {}: has \"{}\", needs one of {}", line_.op, key, text, known));
}

void LineParser::complain(std::string text) {
  if (complaint_.empty()) complaint_ = std::move(text);
}

Status LineParser::finish() {
  for (size_t i = 0; i < used_.size(); ++i) {
    if (!used_[i]) {
      complain(fmt::format("{}: {}: unknown key, known are{}", line_.op, line_.fields[i].first, keys_));
    }
  }
  if (!complaint_.empty()) return {StatusCode::invalid_argument, complaint_};
  return {};
}

}  // namespace silt
