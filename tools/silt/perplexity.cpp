// silt perplexity: what a text costs under a model, in bits per byte.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "silt/choose.hpp"
#include "silt/model.hpp"

#include "command.hpp"
#include "decoder.hpp"
#include "files.hpp"
#include "progress.hpp"

namespace silt::cli {
namespace {

constexpr std::string_view kNoResult = "there is no result";

struct Options {
  DecoderOptions decoder;
  std::string file;
  int64_t window = ScoreOptions().window;
};

int run(const Options& options) {
  const auto fail = [](const Status& status) { return complain("perplexity", status); };
  if (const Status status = check_decoder_options(options.decoder); !status.ok()) return fail(status);
  if (options.file.empty()) return complain("perplexity", "FILE: missing, needs a text file", kWrongUse);
  std::string text;
  if (const Status status = read_file("FILE", options.file, &text); !status.ok()) return fail(status);
  if (text.empty()) {
    return complain("perplexity", fmt::format("FILE: {} is empty, needs at least one byte", options.file), kWrongUse);
  }
  watch_interrupts();
  std::shared_ptr<const Model> model;
  if (const Status status = load_model(options.decoder, &model); !status.ok()) {
    return interrupted() ? end_interrupted("perplexity", kNoResult) : fail(status);
  }
  std::unique_ptr<Session> session;
  const int64_t context = options.window;  // the begin token and all bytes but the last
  if (const Status status = open_session(options.decoder, model, 1, context, &session); !status.ok()) {
    return fail(status);
  }
  reset_counters();
  ScoreResult result;
  {
    Progress progress("scoring", options.decoder.quiet);
    ScoreOptions wanted;
    wanted.window = options.window;
    wanted.on_progress = [&](int64_t done, int64_t total) {
      progress.show(fmt::format("{} of {} tokens", done, total));
      return !interrupted();
    };
    if (const Status status = score(*session, text, wanted, &result); !status.ok()) {
      progress.clear();
      return interrupted() ? end_interrupted("perplexity", kNoResult) : fail(status);
    }
  }
  fmt::print("{:.5f} bits per byte ({} bytes, {} windows of {} tokens)\n", result.bits_per_byte(), result.bytes,
             result.bits_per_window.size(), options.window);
  if (!options.decoder.quiet) print_summary(*model, result.statistics);
  return kDone;
}

}  // namespace

void add_perplexity(CommandLine& line) {
  auto options = std::make_shared<Options>();
  Command command =
      line.add("perplexity", "What a text costs under a model, in bits per byte",
               "silt perplexity models/k3-mini models/k3-mini/heldout.txt", [options] { return run(*options); });
  add_decoder_options(command, &options->decoder);
  command.positional("FILE", &options->file, "A text; its bytes are scored");
  command.whole("--window", &options->window, 1, INT32_MAX, "Tokens per window; each starts from an empty state");
}

}  // namespace silt::cli
