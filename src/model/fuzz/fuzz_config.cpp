// The readers of config.json, tokenizer_config.json and generation_config.json on arbitrary text: a status of one
// printable line, or a config whose sizes are within their bounds.
#include <cstdint>
#include <cstdlib>

#include "model/config.hpp"
#include "model/tokenizer.hpp"

namespace {

void check(const silt::Status& status) {
  for (const char c : status.message()) {
    if (c < 0x20 || c >= 0x7f) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  silt::ModelConfig config;
  const silt::Status status = silt::parse_config(text, "fuzz", &config);
  check(status);
  if (status.ok()) {
    if (config.hidden < 1 || config.hidden > silt::kMostSize || config.layers() < 1) std::abort();
    if (config.kda.channels() > silt::kMostSize || config.ffn.chosen > config.ffn.experts) std::abort();
  }
  silt::GenerationConfig generation;
  check(silt::parse_generation_config(text, "fuzz", &generation));
  silt::Tokenizer tokenizer;
  check(silt::parse_tokenizer(text, "fuzz", 320, &tokenizer));
  return 0;
}
