#include "model/tokenizer.hpp"

#include "core/status.hpp"
#include "model/json.hpp"

namespace silt {
namespace {
constexpr int32_t kBytes = 256;
}

Status parse_tokenizer(std::string_view text, std::string_view file, int64_t vocab, Tokenizer* tokenizer) {
  *tokenizer = {};
  JsonDocument document;
  SILT_TRY(parse_json(text, file, &document));
  const Json& json = document.json;
  JsonFields fields(json, std::string(file));
  SILT_TRY(fields.status());
  if (!fields.has("type")) {
    return invalid("{}: type: missing (tokenizer_class is \"{}\"), needs \"bytes\", the one tokenizer there is", file,
                   printable(std::string_view(fields.text_or("tokenizer_class", ""))));
  }
  if (fields.text("type") != "bytes") fields.refuse("type", "\"bytes\", the one tokenizer there is");
  SILT_TRY(fields.status());
  if (vocab < kBytes) return invalid("config.json: vocab_size: has {}, needs at least {} for bytes", vocab, kBytes);
  if (fields.flag_or("add_bos_token", fields.has("bos_token_id"))) {
    tokenizer->begin_token = static_cast<int32_t>(fields.integer("bos_token_id", 0, vocab - 1));
  }
  for (const int64_t token : fields.integers_or_none("eos_token_id", 0, vocab - 1)) {
    tokenizer->end_tokens.push_back(static_cast<int32_t>(token));
  }
  return fields.status();
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool begin) const {
  std::vector<int32_t> tokens;
  tokens.reserve(text.size() + 1);
  if (begin && begin_token >= 0) tokens.push_back(begin_token);
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

std::string Tokenizer::decode(std::span<const int32_t> tokens) const {
  std::string text;
  text.reserve(tokens.size());
  for (const int32_t token : tokens) {
    if (token >= 0 && token < kBytes) text += static_cast<char>(token);
  }
  return text;
}

}  // namespace silt
