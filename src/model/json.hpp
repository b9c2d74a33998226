// Reading of JSON that may be hostile: duplicate keys, wrong types and absurd numbers are errors with file, path and
// value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "silt/status.hpp"

namespace silt {

using Json = nlohmann::json;

/// A name from a file as it may stand in a message: printable ASCII, cut after `most` characters.
std::string printable(std::string_view name, size_t most = 120);
/// A JSON value as it may stand in a message.
std::string printable_json(const Json& value);

/// A parsed text. nlohmann::json takes memory apart with a stack that it allocates in its destructor, where a failure
/// ends the process: the reserve, which is destroyed before it, leaves room for that.
struct JsonDocument {
  Json json;
  std::unique_ptr<std::byte[]> reserve{};
};

/// `file` is the name used in messages. Refuses nesting deeper than 64 and a key that an object has twice;
/// out_of_memory before anything is parsed where the values of such a text might not find room.
Status parse_json(std::string_view text, std::string_view file, JsonDocument* document);

/// Reads the fields of one object. The first wrong one is kept; later calls return harmless values. A null counts as
/// absent.
class JsonFields {
 public:
  /// `where` names the object: "config.json" or "config.json: text_config".
  JsonFields(const Json& object, std::string where);

  [[nodiscard]] bool has(std::string_view key) const { return find(key) != nullptr; }
  int64_t integer(std::string_view key, int64_t least, int64_t most);
  int64_t integer_or(std::string_view key, int64_t otherwise, int64_t least, int64_t most);
  double real(std::string_view key, double least, double most);
  double real_or(std::string_view key, double otherwise, double least, double most);
  bool flag(std::string_view key);
  bool flag_or(std::string_view key, bool otherwise);
  std::string text(std::string_view key);
  std::string text_or(std::string_view key, std::string_view otherwise);
  /// One of `names`; returns its index.
  size_t choice(std::string_view key, std::initializer_list<std::string_view> names);
  /// A number or a list of numbers; empty where absent.
  std::vector<int64_t> integers_or_none(std::string_view key, int64_t least, int64_t most);
  /// Fails unless the field is absent or an object; null where absent.
  const Json* object_or_none(std::string_view key);
  const Json* object(std::string_view key);

  /// Keys that no call has asked for.
  [[nodiscard]] std::vector<std::string> unread() const;
  /// Records a failure of the field, unless there is one already.
  void refuse(std::string_view key, std::string_view needs);
  [[nodiscard]] const std::string& where() const { return where_; }
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  [[nodiscard]] const Json* find(std::string_view key) const;
  const Json* demand(std::string_view key, std::string_view needs);
  int64_t checked_integer(std::string_view key, const Json& value, int64_t least, int64_t most);

  const Json& object_;
  std::string where_;
  Status status_;
  mutable std::vector<std::string_view> asked_;
};

}  // namespace silt
