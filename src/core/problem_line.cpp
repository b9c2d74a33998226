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
