// The byte tokenizer of tokenizer_config.json: ids 0..255 are bytes, special ids lie above.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "silt/status.hpp"

namespace silt {

struct Tokenizer {
  int32_t begin_token = -1;  ///< starts every sequence; -1: none
  std::vector<int32_t> end_tokens;

  [[nodiscard]] std::vector<int32_t> encode(std::string_view text, bool begin) const;
  [[nodiscard]] std::string decode(std::span<const int32_t> tokens) const;
};

/// Other kinds of tokenizer are refused by name.
Status parse_tokenizer(std::string_view text, std::string_view file, int64_t vocab, Tokenizer* tokenizer);

}  // namespace silt
