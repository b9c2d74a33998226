// The commands of the decoder in a build without it.
#include "command.hpp"

namespace silt::cli {
namespace {

void add_missing(CommandLine& line, const char* name, const char* summary) {
  auto words = std::make_shared<std::vector<std::string>>();
  Command command = line.add(name, summary, std::string("silt ") + name, [name, words] {
    return complain(name, "has no decoder to run, needs a build with SILT_MODEL=ON", kWrongUse);
  });
  command.rest(words.get());
}

}  // namespace

void add_generate(CommandLine& line) { add_missing(line, "generate", "Continues prompts with a model (not built)"); }
void add_perplexity(CommandLine& line) {
  add_missing(line, "perplexity", "What a text costs under a model, in bits per byte (not built)");
}

}  // namespace silt::cli
