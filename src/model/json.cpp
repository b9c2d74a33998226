#include "model/json.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/no_memory.hpp"

namespace silt {
namespace {

constexpr int kDeepest = 64;

// What a byte of text can become, blocks of malloc included. Values: "{}," is an element of 16 bytes in an array that
// doubles while it grows (48) and an empty map (64), 37 a byte; short keys with their values, once more in Watch, need
// less. The destructor's stack has the 16 bytes of every element of two bytes, and doubles too.
constexpr size_t kParsePerByte = 48;
constexpr size_t kReservePerByte = 24;
constexpr size_t kParseBytes = size_t{1} << 16;  // of the parser itself, and of messages
constexpr size_t kReserveBytes = size_t{1} << 14;

/// Memory that nobody has touched, and that therefore costs no pages.
std::unique_ptr<std::byte[]> block_of(size_t bytes) {
  std::unique_ptr<std::byte[]> block(new (std::nothrow) std::byte[bytes]);
  if (!block) throw NoMemory(bytes);
  return block;
}

/// Watches the parser for what nlohmann::json accepts silently.
class Watch {
 public:
  bool operator()(int depth, Json::parse_event_t event, Json& value) {
    if (depth > kDeepest) too_deep = true;
    switch (event) {
      case Json::parse_event_t::object_start:
        keys_.emplace_back();
        break;
      case Json::parse_event_t::object_end:
        keys_.pop_back();
        break;
      case Json::parse_event_t::key:
        if (!keys_.back().insert(value.get<std::string>()).second && twice.empty()) {
          twice = printable(value.get<std::string>());
        }
        break;
      default:
        break;
    }
    return !too_deep;
  }
  bool too_deep = false;
  std::string twice;

 private:
  std::vector<std::set<std::string>> keys_;
};

}  // namespace

std::string printable(std::string_view name, size_t most) {
  std::string text;
  for (const char c : name) {
    if (text.size() >= most) return text + "...";
    const bool plain = c >= 0x20 && c < 0x7f;
    text += plain ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return text;
}

std::string printable_json(const Json& value) {
  return printable(std::string_view(value.dump(-1, ' ', true, Json::error_handler_t::replace)));
}

Status parse_json(std::string_view text, std::string_view file, JsonDocument* document) {
  Watch watch;
  Status status = with_memory([&] { return file; },
                              [&]() -> Status {
                                document->reserve = block_of(kReserveBytes + kReservePerByte * text.size());
                                block_of(kParseBytes + kParsePerByte * text.size()).reset();
                                try {
                                  document->json = Json::parse(text.begin(), text.end(), std::ref(watch));
                                } catch (const Json::parse_error& error) {
                                  return invalid("{}: has no valid JSON at byte {}, needs JSON", file, error.byte);
                                } catch (const Json::exception& error) {
                                  return invalid("{}: has JSON that cannot be read ({}), needs JSON", file,
                                                 printable(std::string_view(error.what())));
                                }
                                return {};
                              });
  if (!status.ok()) return status;
  if (watch.too_deep) return invalid("{}: has values nested deeper than {}, needs fewer levels", file, kDeepest);
  if (!watch.twice.empty()) return invalid("{}: {}: is there twice, needs to be there once", file, watch.twice);
  return {};
}

JsonFields::JsonFields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
  if (!object_.is_object()) status_ = invalid("{}: has {}, needs an object", where_, printable_json(object_));
}

const Json* JsonFields::find(std::string_view key) const {
  if (!object_.is_object()) return nullptr;
  asked_.push_back(key);
  const auto found = object_.find(std::string(key));
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void JsonFields::refuse(std::string_view key, std::string_view needs) {
  if (!status_.ok()) return;
  const Json* value = find(key);
  status_ = value == nullptr ? invalid("{}: {}: missing, needs {}", where_, key, needs)
                             : invalid("{}: {}: has {}, needs {}", where_, key, printable_json(*value), needs);
}

const Json* JsonFields::demand(std::string_view key, std::string_view needs) {
  const Json* value = find(key);
  if (value == nullptr) refuse(key, needs);
  return value;
}

int64_t JsonFields::checked_integer(std::string_view key, const Json& value, int64_t least, int64_t most) {
  const bool whole = value.is_number_integer();
  const bool huge = value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  if (!whole || huge || value.get<int64_t>() < least || value.get<int64_t>() > most) {
    refuse(key, fmt::format("a whole number in {}..{}", least, most));
    return least;
  }
  return value.get<int64_t>();
}

int64_t JsonFields::integer(std::string_view key, int64_t least, int64_t most) {
  const Json* value = demand(key, fmt::format("a whole number in {}..{}", least, most));
  return value == nullptr ? least : checked_integer(key, *value, least, most);
}

int64_t JsonFields::integer_or(std::string_view key, int64_t otherwise, int64_t least, int64_t most) {
  return has(key) ? integer(key, least, most) : otherwise;
}

double JsonFields::real(std::string_view key, double least, double most) {
  const std::string needs = fmt::format("a number in {}..{}", least, most);
  const Json* value = demand(key, needs);
  if (value == nullptr) return least;
  const double number = value->is_number() ? value->get<double>() : NAN;
  if (!(number >= least && number <= most)) {
    refuse(key, needs);
    return least;
  }
  return number;
}

double JsonFields::real_or(std::string_view key, double otherwise, double least, double most) {
  return has(key) ? real(key, least, most) : otherwise;
}

bool JsonFields::flag(std::string_view key) {
  const Json* value = demand(key, "true or false");
  if (value == nullptr) return false;
  if (!value->is_boolean()) refuse(key, "true or false");
  return value->is_boolean() && value->get<bool>();
}

bool JsonFields::flag_or(std::string_view key, bool otherwise) { return has(key) ? flag(key) : otherwise; }

std::string JsonFields::text(std::string_view key) {
  const Json* value = demand(key, "a string");
  if (value == nullptr) return {};
  if (!value->is_string()) {
    refuse(key, "a string");
    return {};
  }
  return value->get<std::string>();
}

std::string JsonFields::text_or(std::string_view key, std::string_view otherwise) {
  return has(key) ? text(key) : std::string(otherwise);
}

size_t JsonFields::choice(std::string_view key, std::initializer_list<std::string_view> names) {
  std::string needs;
  for (const std::string_view name : names) needs += fmt::format("{}\"{}\"", needs.empty() ? "" : " or ", name);
  const Json* value = demand(key, needs);
  if (value == nullptr) return 0;
  const std::string has = value->is_string() ? value->get<std::string>() : std::string();
  const auto* const found = std::find(names.begin(), names.end(), has);
  if (found == names.end()) {
    refuse(key, needs);
    return 0;
  }
  return static_cast<size_t>(found - names.begin());
}

std::vector<int64_t> JsonFields::integers_or_none(std::string_view key, int64_t least, int64_t most) {
  const Json* value = find(key);
  std::vector<int64_t> numbers;
  if (value == nullptr) return numbers;
  if (!value->is_array()) {
    numbers.push_back(checked_integer(key, *value, least, most));
    return numbers;
  }
  for (const Json& item : *value) numbers.push_back(checked_integer(key, item, least, most));
  return numbers;
}

const Json* JsonFields::object_or_none(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr || value->is_object()) return value;
  refuse(key, "an object");
  return nullptr;
}

const Json* JsonFields::object(std::string_view key) {
  if (demand(key, "an object") == nullptr) return nullptr;
  return object_or_none(key);
}

std::vector<std::string> JsonFields::unread() const {
  std::vector<std::string> names;
  if (!object_.is_object()) return names;
  for (const auto& item : object_.items()) {
    if (std::find(asked_.begin(), asked_.end(), item.key()) == asked_.end()) names.push_back(item.key());
  }
  return names;
}

}  // namespace silt
